package dev.colocation.spark.fs;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.github.luben.zstd.ZstdInputStream;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.lang.ref.SoftReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;

/**
 * Manifests of format 2: a frame with the length of the header, the header, and a frame for each bucket that has files;
 * see {@code model/table_manifest.py}. The header has the digest of each bucket's frame, so that one can be read without the
 * others.
 *
 * <p>Files of buckets are cached as long as there is room, and read again when needed.
 */
final class ManifestFrames {
  /** Of the first frame. */
  static final int PREFIX_BYTES = 44;

  static final int MAX_HEADER_BYTES = 64 << 20;
  static final int MAGIC = 0x184D2A50;
  static final int CONTENT_BYTES = 36;
  static final int DIGEST_BYTES = 32;

  private static final HexFormat HEX = HexFormat.of();

  /** Where one bucket's frame is. */
  private static final class Slot {
    final int bucket;
    final int files;
    final long position;
    final int length;
    final String sha256;
    private SoftReference<BucketFiles> content = new SoftReference<>(null);

    Slot(int bucket, JsonNode frame, long position) {
      this.bucket = bucket;
      this.position = position;
      files = frame.path("files").asInt(-1);
      length = frame.path("bytes").asInt(-1);
      sha256 = frame.path("sha256").asText();
    }
  }

  private final String sha256;
  private final Buckets buckets;
  private final long bytes;
  /** Index = bucket; null = it has no files. */
  private final Slot[] slots;

  private ManifestFrames(String sha256, Buckets buckets, Slot[] slots, long bytes) {
    this.sha256 = sha256;
    this.buckets = buckets;
    this.slots = slots;
    this.bytes = bytes;
  }

  /** Whether a manifest is in format 2, by its beginning. */
  static boolean begins(byte[] stored) {
    return stored.length >= PREFIX_BYTES && ByteBuffer.wrap(stored).order(ByteOrder.LITTLE_ENDIAN).getInt() == MAGIC;
  }

  /** The first frame: length and digest of the header. */
  record Prefix(int headerBytes, byte[] headerDigest) {
    static Prefix of(byte[] stored, String sha256) throws IOException {
      ByteBuffer prefix = ByteBuffer.wrap(stored).order(ByteOrder.LITTLE_ENDIAN);
      prefix.getInt();
      int content = prefix.getInt();
      int headerBytes = prefix.getInt();
      if (content != CONTENT_BYTES || headerBytes <= 0 || headerBytes > MAX_HEADER_BYTES) {
        throw new IOException("manifest " + sha256 + " has a header of " + headerBytes + " bytes, or an unknown beginning");
      }
      byte[] digest = new byte[DIGEST_BYTES];
      prefix.get(digest);
      return new Prefix(headerBytes, digest);
    }

    /** Where the header ends and the buckets' frames begin. */
    int headerEnd() {
      return PREFIX_BYTES + headerBytes;
    }

    /** The header's JSON; {@code stored}: at least until its end. */
    ObjectNode header(byte[] stored, String sha256) throws IOException {
      byte[] frame = Arrays.copyOfRange(stored, PREFIX_BYTES, headerEnd());
      if (!Arrays.equals(digest(frame), headerDigest)) {
        throw new IOException("the header of manifest " + sha256 + " has another content than its digest says");
      }
      if (Manifest.JSON.readTree(text(frame)) instanceof ObjectNode header) {
        return header;
      }
      throw new IOException("the header of manifest " + sha256 + " is not a JSON object");
    }
  }

  static ManifestFrames of(JsonNode header, String sha256, long headerEnd) throws IOException {
    int buckets = header.path("buckets").asInt();
    Slot[] slots = new Slot[Math.max(buckets, 0)];
    long position = headerEnd;
    int before = -1;
    for (JsonNode frame : header.path("frames")) {
      int bucket = frame.path("bucket").asInt(-1);
      if (bucket <= before || bucket >= buckets) {
        throw new IOException("manifest " + sha256 + " has files of bucket " + bucket + " behind those of " + before
            + "; allowed: 0 to " + (buckets - 1) + ", in this order");
      }
      Slot slot = new Slot(bucket, frame, position);
      if (slot.length <= 0 || slot.files < 0) {
        throw new IOException("manifest " + sha256 + " does not say how long the files of bucket " + bucket + " are");
      }
      slots[bucket] = slot;
      position += slot.length;
      before = bucket;
    }
    return new ManifestFrames(sha256, ManifestHeader.buckets(header), slots, position);
  }

  /** The files of one bucket. Others may read other buckets meanwhile. */
  BucketFiles of(int bucket, ManifestSource source) throws IOException {
    Slot slot = slots[bucket];
    if (slot == null) {
      return BucketFiles.NONE;
    }
    synchronized (slot) {
      BucketFiles known = slot.content.get();
      if (known == null) {
        known = source.read(slot.position, slot.length, frame -> decoded(slot, frame));
        slot.content = new SoftReference<>(known);
      }
      return known;
    }
  }

  /** The files of all buckets; index = bucket. Reads the whole manifest, unless it is in memory, and checks its name. */
  BucketFiles[] all(ManifestSource source) throws IOException {
    BucketFiles[] found = new BucketFiles[slots.length];
    boolean complete = true;
    for (int bucket = 0; bucket < slots.length; bucket++) {
      found[bucket] = slots[bucket] == null ? BucketFiles.NONE : slots[bucket].content.get();
      complete &= found[bucket] != null;
    }
    return complete ? found : source.whole(this::decodedAll);
  }

  private void checkLength(byte[] stored) throws IOException {
    if (stored.length != bytes) {
      throw new IOException("manifest " + sha256 + " has " + stored.length + " bytes; its header says " + bytes);
    }
  }

  private BucketFiles[] decodedAll(byte[] stored) throws IOException {
    checkLength(stored);
    BucketFiles[] found = new BucketFiles[slots.length];
    for (int bucket = 0; bucket < slots.length; bucket++) {
      Slot slot = slots[bucket];
      if (slot == null) {
        found[bucket] = BucketFiles.NONE;
        continue;
      }
      found[bucket] = decoded(slot, frame(slot, stored));
      synchronized (slot) {
        slot.content = new SoftReference<>(found[bucket]);
      }
    }
    return found;
  }

  private static byte[] frame(Slot slot, byte[] stored) {
    return Arrays.copyOfRange(stored, (int) slot.position, (int) slot.position + slot.length);
  }

  private BucketFiles decoded(Slot slot, byte[] frame) throws IOException {
    checkDigest(slot, frame);
    BucketFiles.Builders builders = new BucketFiles.Builders();
    try (JsonParser json = Manifest.JSON.createParser(text(frame))) {
      json.nextToken();
      BucketFiles.read(json, builders);
    }
    BucketFiles built = builders.only(slot.bucket, buckets);
    if (built == null || built.size() != slot.files) {
      throw otherFiles(slot);
    }
    return built;
  }

  private IOException otherFiles(Slot slot) {
    return new IOException("manifest " + sha256 + " has other files where those of bucket " + slot.bucket + " should be, or not "
        + slot.files);
  }

  private void checkDigest(Slot slot, byte[] frame) throws IOException {
    if (!HEX.formatHex(digest(frame)).equals(slot.sha256)) {
      throw new IOException("the files of bucket " + slot.bucket + " in manifest " + sha256
          + " have another content than their digest says");
    }
  }

  /** The manifest with its files, in format 1. */
  ObjectNode joined(ObjectNode header, byte[] stored) throws IOException {
    checkLength(stored);
    ArrayNode files = header.putArray("files");
    for (Slot slot : slots) {
      if (slot != null) {
        byte[] frame = frame(slot, stored);
        checkDigest(slot, frame);
        JsonNode found = Manifest.JSON.readTree(text(frame));
        found.forEach(files::add);
        if (found.size() != slot.files || !found.findValues("bucket").stream().allMatch(bucket -> bucket.asInt() == slot.bucket)) {
          throw otherFiles(slot);
        }
      }
    }
    header.remove("frames");
    return header;
  }

  static ZstdInputStream text(byte[] frame) throws IOException {
    return new ZstdInputStream(new ByteArrayInputStream(frame));
  }

  static byte[] digest(byte[] content) {
    try {
      return MessageDigest.getInstance("SHA-256").digest(content);
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException("every Java platform has SHA-256", error);
    }
  }
}
