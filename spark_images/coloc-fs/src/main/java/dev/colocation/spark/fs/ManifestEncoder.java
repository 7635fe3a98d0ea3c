package dev.colocation.spark.fs;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.github.luben.zstd.Zstd;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Stores manifests; the same as {@code encode_manifest} in {@code model/table_manifest.py}. */
public final class ManifestEncoder {
  /** Format 2 is written from this number of files; smaller manifests are read quickly as a whole, and all releases read format 1. */
  public static final int FRAMED_FROM_FILES = 10_000;

  private static final int LEVEL = 9;

  private ManifestEncoder() {}

  /**
   * A manifest as it is stored.
   *
   * @param sha256 its name: 64 hex digits
   */
  public record Stored(String sha256, byte[] content) {}

  /**
   * Stores a manifest in the format for its number of files.
   *
   * @param manifest in format 1, with {@code files}; its {@code formatVersion} does not matter
   * @param newestFormat that all readers know; agents of older releases do not read newer ones
   */
  public static Stored encode(ObjectNode manifest, int newestFormat) throws IOException {
    JsonNode files = manifest.path("files");
    byte[] content;
    if (newestFormat >= Manifest.FRAMED_FORMAT && files.size() >= FRAMED_FROM_FILES) {
      content = framed(manifest);
    } else {
      ObjectNode plain = manifest.objectNode().put("formatVersion", Manifest.PLAIN_FORMAT);
      manifest.properties().stream().filter(field -> !field.getKey().equals("formatVersion"))
          .forEach(field -> plain.set(field.getKey(), field.getValue()));
      content = compressed(plain);
    }
    return new Stored(HexFormat.of().formatHex(ManifestFrames.digest(content)), content);
  }

  /** Encodes in format 2, whatever the number of files. */
  static byte[] framed(ObjectNode manifest) throws IOException {
    Map<Integer, List<JsonNode>> byBucket = new TreeMap<>();
    for (JsonNode file : manifest.path("files")) {
      byBucket.computeIfAbsent(file.path("bucket").asInt(), bucket -> new ArrayList<>()).add(file);
    }
    ObjectNode header = manifest.objectNode().put("formatVersion", Manifest.FRAMED_FORMAT);
    manifest.properties().stream().filter(field -> !List.of("formatVersion", "files").contains(field.getKey()))
        .forEach(field -> header.set(field.getKey(), field.getValue()));
    ArrayNode frames = header.putArray("frames");
    ByteArrayOutputStream content = new ByteArrayOutputStream();
    for (Map.Entry<Integer, List<JsonNode>> bucket : byBucket.entrySet()) {
      ArrayNode files = Manifest.JSON.createArrayNode();
      bucket.getValue().stream().sorted(Comparator.comparing(file -> file.path("path").asText())).forEach(files::add);
      byte[] frame = compressed(files);
      frames.addObject().put("bucket", bucket.getKey()).put("files", files.size()).put("bytes", frame.length)
          .put("sha256", HexFormat.of().formatHex(ManifestFrames.digest(frame)));
      content.writeBytes(frame);
    }
    byte[] head = compressed(header);
    ByteArrayOutputStream stored = new ByteArrayOutputStream();
    stored.writeBytes(ByteBuffer.allocate(ManifestFrames.PREFIX_BYTES).order(ByteOrder.LITTLE_ENDIAN)
        .putInt(ManifestFrames.MAGIC).putInt(ManifestFrames.CONTENT_BYTES).putInt(head.length)
        .put(ManifestFrames.digest(head)).array());
    stored.writeBytes(head);
    stored.writeBytes(content.toByteArray());
    return stored.toByteArray();
  }

  private static byte[] compressed(JsonNode json) throws IOException {
    return Zstd.compress(Manifest.JSON.writeValueAsBytes(json), LEVEL);
  }
}
