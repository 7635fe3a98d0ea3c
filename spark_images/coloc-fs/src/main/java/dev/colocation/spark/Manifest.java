package dev.colocation.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.github.luben.zstd.ZstdInputStream;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The files of one snapshot of one table, sorted by path; see ARCHITECTURE.md and {@code model/table_manifest.py}.
 *
 * <p>Every file's bucket is checked against its name: Spark reads the bucket from the name, and a wrong one would lose rows
 * in joins without a word.
 */
public final class Manifest {
  /** One immutable file: its length in bytes and its bucket. */
  public record File(long bytes, int bucket) {}

  /** A column; {@code storedAs}: of a renamed one its first name, which files keep; empty = name. */
  public record Column(String name, String type, boolean nullable, String storedAs) {
    /** The column's name in the files. */
    public String storedName() {
      return storedAs.isEmpty() ? name : storedAs;
    }
  }

  /** In locations, in the place of the digest: of a table into which nothing was loaded yet. */
  public static final String NOTHING = "nothing";

  static final Manifest EMPTY = new Manifest(new TreeMap<>(), 0, List.of(), List.of(), List.of(), List.of(), 0);

  static final int FORMAT_VERSION = 1;

  /** {@code org.apache.spark.sql.execution.datasources.BucketingUtils.bucketedFileName}. */
  private static final Pattern BUCKET_IN_FILE_NAME = Pattern.compile(".*_(\\d+)(?:\\..*)?$");

  private static final ObjectMapper JSON = new ObjectMapper();

  private final NavigableMap<String, File> files;
  private final long snapshotId;
  private final List<Column> columns;
  private final List<String> bucketedBy;
  private final List<String> partitionedBy;
  private final List<String> sortedBy;
  private final int buckets;

  private Manifest(
      NavigableMap<String, File> files, long snapshotId, List<Column> columns, List<String> bucketedBy,
      List<String> partitionedBy, List<String> sortedBy, int buckets) {
    this.files = files;
    this.snapshotId = snapshotId;
    this.columns = columns;
    this.bucketedBy = bucketedBy;
    this.partitionedBy = partitionedBy;
    this.sortedBy = sortedBy;
    this.buckets = buckets;
  }

  /** 0 = nothing was loaded yet. */
  public long snapshotId() {
    return snapshotId;
  }

  /** The columns as the files have them. */
  public List<Column> columns() {
    return columns;
  }

  public List<String> bucketedBy() {
    return bucketedBy;
  }

  public List<String> partitionedBy() {
    return partitionedBy;
  }

  /** How many buckets the files have. */
  public int buckets() {
    return buckets;
  }

  /** The columns by which the rows of each file are sorted, ascending with NULL first; empty when that is not known. */
  public List<String> sortedBy() {
    return sortedBy;
  }

  /** All files by their path below the table's folder, {@code data/…}. */
  public NavigableMap<String, File> files() {
    return files;
  }

  /**
   * Reads a manifest as stored: zstd-compressed JSON whose SHA-256 is its name.
   *
   * @throws IOException when the content has another digest, is of a newer format, or names a file in a wrong bucket
   */
  static Manifest decode(byte[] stored, String sha256) throws IOException {
    String actual = sha256(stored);
    if (!actual.equals(sha256)) {
      throw new IOException("manifest " + sha256 + " has the content of " + actual);
    }
    JsonNode root = text(stored);
    int version = root.path("formatVersion").asInt();
    if (version > FORMAT_VERSION) {
      throw new IOException(
          "manifest " + sha256 + " has format " + version + "; this version reads " + FORMAT_VERSION);
    }
    int buckets = root.path("buckets").asInt();
    NavigableMap<String, File> files = new TreeMap<>();
    for (JsonNode node : root.path("files")) {
      String path = node.path("path").asText();
      File file = new File(node.path("bytes").asLong(), node.path("bucket").asInt());
      checkBucket(path, file.bucket(), buckets);
      files.put(path, file);
    }
    return new Manifest(
        files, root.path("snapshotId").asLong(), columns(root.path("columns")), texts(root.path("bucketedBy")),
        texts(root.path("partitionedBy")), texts(root.path("sortedBy")), buckets);
  }

  /** A manifest's JSON; its digest was checked before. */
  static JsonNode text(byte[] stored) throws IOException {
    try (ZstdInputStream text = new ZstdInputStream(new ByteArrayInputStream(stored))) {
      return JSON.readTree(text);
    }
  }

  /** Columns as manifests and specs of tables have them. */
  public static List<Column> columns(JsonNode array) {
    List<Column> found = new ArrayList<>();
    for (JsonNode node : array) {
      found.add(new Column(
          node.path("name").asText(), node.path("type").asText(), node.path("nullable").asBoolean(true),
          node.path("storedAs").asText("")));
    }
    return List.copyOf(found);
  }

  private static List<String> texts(JsonNode array) {
    List<String> found = new ArrayList<>();
    array.forEach(item -> found.add(item.asText()));
    return List.copyOf(found);
  }

  private static void checkBucket(String path, int bucket, int buckets) throws IOException {
    Matcher matcher = BUCKET_IN_FILE_NAME.matcher(path.substring(path.lastIndexOf('/') + 1));
    if (!matcher.matches() || !matcher.group(1).equals(String.format("%05d", bucket))) {
      throw new IOException("file " + path + " is listed in bucket " + bucket + " but its name says otherwise");
    }
    if (bucket < 0 || bucket >= buckets) {
      throw new IOException("file " + path + " is in bucket " + bucket + "; allowed: 0 to " + (buckets - 1));
    }
  }

  private static String sha256(byte[] content) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException("every Java platform has SHA-256", error);
    }
  }
}
