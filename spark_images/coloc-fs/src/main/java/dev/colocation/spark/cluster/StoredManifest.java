package dev.colocation.spark.cluster;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdInputStream;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.fs.ManifestHeader;
import dev.colocation.spark.fs.ManifestStore;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * A committed manifest, see {@code model/table_manifest.py}, as the parent of the next one: it has the original bytes of each
 * file's JSON, so that fields which later versions added are kept.
 */
public final class StoredManifest {
  public static final int FORMAT_VERSION = 1;
  /** The same as {@code MAX_MANIFEST_FILES} in {@code model/base.py}: agents keep the names of a live manifest's files in memory. */
  public static final int MAX_FILES = 1 << 18;

  /** Limits a manifest's JSON and its stored form. Anyone who can load the table can store any bytes under a manifest's name. */
  public static final int MAX_BYTES = 128 << 20;

  private static final int BLOCK_BYTES = 1 << 20;
  private static final ObjectMapper JSON = new ObjectMapper();

  private final ObjectNode header;
  private final byte[] text;
  private final List<DataFile> files = new ArrayList<>();
  /** Where each file's JSON begins and ends in the text. */
  private final List<int[]> places = new ArrayList<>();

  private StoredManifest(byte[] text) throws IOException {
    this.text = text;
    header = JSON.createObjectNode();
    try (JsonParser parser = JSON.createParser(text)) {
      require(parser.nextToken() == JsonToken.START_OBJECT, "it is not a JSON object");
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = parser.currentName();
        JsonToken value = parser.nextToken();
        if (name.equals("files")) {
          require(value == JsonToken.START_ARRAY, "its files are not a list");
          readFiles(parser);
        } else {
          header.set(name, parser.readValueAsTree());
        }
      }
      require(parser.nextToken() == null, "it has something behind its JSON object");
    }
  }

  /**
   * The manifest in {@code stored}, which must have the digest {@code sha256}.
   *
   * @throws IOException wrong digest, not zstd, too long, not a manifest, a newer format, or a file whose bucket is wrong
   */
  public static StoredManifest decode(byte[] stored, String sha256) throws IOException {
    String actual = sha256(stored);
    if (!actual.equals(sha256)) {
      throw new IOException("manifest " + sha256 + " has the content of " + actual);
    }
    try {
      StoredManifest manifest = new StoredManifest(
          ManifestStore.isFramed(stored) ? ManifestStore.asPlainText(stored, sha256) : decompressed(stored));
      int version = manifest.header.path("formatVersion").asInt();
      require(version <= FORMAT_VERSION, "it has " + Manifest.newerFormat(version, FORMAT_VERSION));
      ManifestHeader.check(manifest.header);
      Set<String> paths = new HashSet<>();
      for (DataFile file : manifest.files) {
        require(paths.add(file.path()), "file " + file.path() + " is listed twice");
        checkBucket(file, manifest.buckets());
      }
      return manifest;
    } catch (IOException error) {
      throw new IOException("manifest " + sha256 + ": " + error.getMessage(), error);
    }
  }

  private static byte[] decompressed(byte[] stored) throws IOException {
    long announced = Zstd.getFrameContentSize(stored); // negative: it announces nothing
    require(announced <= MAX_BYTES, "it is longer than " + MAX_BYTES + " bytes");
    ByteArrayOutputStream text = new ByteArrayOutputStream();
    try (ZstdInputStream content = new ZstdInputStream(new ByteArrayInputStream(stored))) {
      byte[] block = new byte[BLOCK_BYTES];
      for (int length = content.read(block); length >= 0; length = content.read(block)) {
        text.write(block, 0, length);
        require(text.size() <= MAX_BYTES, "it is longer than " + MAX_BYTES + " bytes");
      }
    }
    require(announced < 0 || announced == text.size(), "it is not as long as it announces");
    return text.toByteArray();
  }

  private void readFiles(JsonParser parser) throws IOException {
    while (parser.nextToken() != JsonToken.END_ARRAY) {
      require(parser.currentToken() == JsonToken.START_OBJECT, "one of its files is not an object");
      int start = (int) parser.currentTokenLocation().getByteOffset();
      files.add(readFile(parser));
      places.add(new int[] {start, (int) parser.currentLocation().getByteOffset()});
    }
  }

  private static DataFile readFile(JsonParser parser) throws IOException {
    String path = "";
    String sha256 = "";
    int bucket = -1;
    long rows = -1;
    long bytes = -1;
    KeyRange keys = KeyRange.NONE;
    Map<String, String> partition = new LinkedHashMap<>();
    while (parser.nextToken() != JsonToken.END_OBJECT) {
      String name = parser.currentName();
      parser.nextToken();
      switch (name) {
        case "path" -> path = parser.getText();
        case "sha256" -> sha256 = parser.getText();
        case "bucket" -> bucket = parser.hasToken(JsonToken.VALUE_NUMBER_INT) ? parser.getIntValue() : -1;
        case "rows" -> rows = number(parser);
        case "bytes" -> bytes = number(parser);
        case "keyRange" -> keys = KeyRange.read(parser);
        case "partition" -> readPartition(parser, partition);
        default -> parser.skipChildren();
      }
    }
    require(!path.isEmpty() && !sha256.isEmpty() && rows >= 0 && bytes >= 0, "file '" + path + "' lacks its path, digest, rows or bytes");
    return new DataFile(path, bucket, partition, rows, bytes, sha256, keys);
  }

  /** -1 for what is no number, or too large. */
  private static long number(JsonParser parser) throws IOException {
    long value = parser.hasToken(JsonToken.VALUE_NUMBER_INT) ? parser.getLongValue() : -1;
    return value <= ManifestHeader.MAX_COUNT ? value : -1;
  }

  private static void readPartition(JsonParser parser, Map<String, String> partition) throws IOException {
    require(parser.currentToken() == JsonToken.START_OBJECT, "one of its partitions is not an object");
    while (parser.nextToken() != JsonToken.END_OBJECT) {
      String name = parser.currentName();
      boolean isNull = parser.nextToken() == JsonToken.VALUE_NULL;
      require(isNull || parser.currentToken() == JsonToken.VALUE_STRING, "a value of partition column " + name + " is not a text");
      partition.put(name, isNull ? null : parser.getText());
    }
  }

  /** Refuses a file whose bucket is out of range or is not the one in its name; see {@link Buckets#refusal}. */
  public static void checkBucket(DataFile file, Buckets buckets) throws IOException {
    String refusal = buckets.refusal(file.path(), file.bucket());
    require(refusal.isEmpty(), refusal);
  }

  private static void require(boolean isTrue, String otherwise) throws IOException {
    if (!isTrue) {
      throw new IOException(otherwise);
    }
  }

  public static String sha256(byte[] content) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException("every Java platform has SHA-256", error);
    }
  }

  public List<DataFile> files() {
    return files;
  }

  /** The JSON of one of the {@link #files}, appended to {@code target}. */
  public void copyFile(int index, ByteArrayOutputStream target) {
    int[] place = places.get(index);
    target.write(text, place[0], place[1] - place[0]);
  }

  public long snapshotId() {
    return header.path("snapshotId").asLong();
  }

  /** The digest of the manifest that it followed; empty when there was none. */
  public String parent() {
    return header.path("parent").asText("");
  }

  public Buckets buckets() {
    return ManifestHeader.buckets(header);
  }

  public List<Manifest.Column> columns() {
    return Manifest.columns(header.path("columns"));
  }

  /**
   * As {@link Manifest#padded()}, and those of {@code declared} that its files lack: they are NULL there.
   *
   * @param declared all CHAR columns of the table's present definition
   */
  public Map<String, Integer> padded(Map<String, Integer> declared) {
    Map<String, Integer> padded = new TreeMap<>(declared);
    columns().forEach(column -> padded.remove(column.storedName()));
    padded.putAll(Manifest.lengths(header.path("padded")));
    return padded;
  }

  /** Of {@code bucketedBy}, {@code partitionedBy} or {@code sortedBy}. */
  public List<String> names(String field) {
    JsonNode found = header.path(field);
    return Json.texts(found);
  }
}
