package dev.colocation.spark.fs;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * One snapshot of one table: the layout and the list of its files; see {@code model/table_manifest.py}.
 *
 * <p>A manifest of few files (format 1) is in memory as a whole. Of one with many files (format 2, {@link ManifestFrames}) the
 * header is in memory, and the files of requested buckets.
 */
public final class Manifest {
  /** One immutable file: its length in bytes, its bucket of the group, and between which keys its rows lie. */
  public record File(long bytes, int bucket, KeyRange keys) {}

  /** A column; {@code storedAs}: a renamed column's first name, which files keep; empty = name. */
  public record Column(String name, String type, boolean nullable, String storedAs) {
    /** The column's name in the files. */
    public String storedName() {
      return storedAs.isEmpty() ? name : storedAs;
    }
  }

  /** In locations, in place of the digest, for a table without snapshots. */
  public static final String NOTHING = "nothing";

  /** The largest size of a data file's row groups; a reader has one of them in memory. */
  public static final long ROW_GROUP_BYTES = 32L << 20;

  public static final Manifest EMPTY = new Manifest(new ObjectMapper().createObjectNode(), new BucketFiles[0]);

  /** All in one JSON text. */
  static final int PLAIN_FORMAT = 1;

  /** The files of each bucket by themselves. */
  public static final int FRAMED_FORMAT = 2;

  static final int FORMAT_VERSION = FRAMED_FORMAT;

  static final ObjectMapper JSON = new ObjectMapper();

  private final long snapshotId;
  private final List<Column> columns;
  private final List<String> bucketedBy;
  private final List<String> partitionedBy;
  private final List<String> sortedBy;
  private final Buckets buckets;
  private final Map<String, Integer> padded;
  /** Of format 1; null of format 2. */
  private final BucketFiles[] files;
  /** Of format 2; null of format 1. */
  private final ManifestFrames frames;

  private Manifest(JsonNode header, BucketFiles[] files) {
    this(header, files, null);
  }

  private Manifest(JsonNode header, BucketFiles[] files, ManifestFrames frames) {
    this.files = files;
    this.frames = frames;
    snapshotId = header.path("snapshotId").asLong();
    columns = columns(header.path("columns"));
    bucketedBy = texts(header.path("bucketedBy"));
    partitionedBy = texts(header.path("partitionedBy"));
    sortedBy = texts(header.path("sortedBy"));
    buckets = ManifestHeader.buckets(header);
    padded = lengths(header.path("padded"));
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
  public Buckets buckets() {
    return buckets;
  }

  /** CHAR columns, by their names in files, all values of which are padded to this length; unknown for other columns. */
  public Map<String, Integer> padded() {
    return padded;
  }

  /** The columns by which the rows of each file are sorted, ascending with NULL first; empty when it is unknown. */
  public List<String> sortedBy() {
    return sortedBy;
  }

  /** The number of files that are cached in any case. */
  int filesInMemory() {
    int count = 0;
    for (int bucket = 0; files != null && bucket < files.length; bucket++) {
      count += files[bucket].size();
    }
    return count;
  }

  /**
   * The file of a path below the table's folder, {@code data/…}; null when there is none.
   *
   * @param source of what is not in memory: the files of the bucket that the path names
   */
  File find(String path, ManifestSource source) throws IOException {
    int bucket = Buckets.placeOf(path);
    if (bucket < 0 || bucket >= buckets.ofGroup()) {
      return null;
    }
    return (frames == null ? files[bucket] : frames.of(bucket, source)).find(path);
  }

  /**
   * All files whose paths begin so, bucket by bucket.
   *
   * @param source of what is not in memory: the whole manifest, which is checked against its name
   */
  void visit(String prefix, ManifestSource source, BucketFiles.Visitor visitor) throws IOException {
    for (BucketFiles one : frames == null ? files : frames.all(source)) {
      one.visit(prefix, visitor);
    }
  }

  /**
   * A manifest of format 1 as stored: zstd-compressed JSON whose SHA-256 was checked. It is parsed as a stream, since the text is
   * much longer than the result.
   *
   * @throws IOException when it is of a newer format, or names a file in a wrong bucket
   */
  static Manifest plain(InputStream text, String sha256) throws IOException {
    ObjectNode header = JSON.createObjectNode();
    BucketFiles.Builders builders = new BucketFiles.Builders();
    try (JsonParser json = JSON.createParser(text)) {
      if (json.nextToken() != JsonToken.START_OBJECT) {
        throw new IOException("manifest " + sha256 + " is not a JSON object");
      }
      while (json.nextToken() == JsonToken.FIELD_NAME) {
        String name = json.currentName();
        json.nextToken();
        if (name.equals("files")) {
          BucketFiles.read(json, builders);
        } else {
          header.set(name, JSON.readTree(json));
        }
      }
      if (json.nextToken() != null) {
        throw new IOException("manifest " + sha256 + " has something behind its JSON object");
      }
    }
    checkFormat(header, sha256, PLAIN_FORMAT);
    return new Manifest(header, builders.build(ManifestHeader.buckets(header)));
  }

  /** A manifest of format 2 from its header. */
  static Manifest framed(JsonNode header, String sha256, long headerEnd) throws IOException {
    checkFormat(header, sha256, FRAMED_FORMAT);
    return new Manifest(header, null, ManifestFrames.of(header, sha256, headerEnd));
  }

  private static void checkFormat(JsonNode header, String sha256, int stored) throws IOException {
    int version = header.path("formatVersion").asInt();
    if (version > FORMAT_VERSION) {
      throw new IOException("manifest " + sha256 + " has " + newerFormat(version, FORMAT_VERSION));
    }
    if ((version >= FRAMED_FORMAT) != (stored >= FRAMED_FORMAT)) {
      throw new IOException("manifest " + sha256 + " is not stored as one of format " + version);
    }
    try {
      ManifestHeader.check(header);
    } catch (IOException error) {
      throw new IOException("manifest " + sha256 + ": " + error.getMessage(), error);
    }
  }

  /** Why a manifest of a later release is not read, and what to do. */
  public static String newerFormat(int format, int readable) {
    return "format " + format + "; this release reads up to " + readable
        + ": use the Spark image of the release that wrote it, or a later one (docs/reference/versions.md)";
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

  /** Numbers by names of columns. */
  public static Map<String, Integer> lengths(JsonNode object) {
    Map<String, Integer> found = new TreeMap<>();
    object.properties().forEach(field -> found.put(field.getKey(), field.getValue().asInt()));
    return found;
  }

  private static List<String> texts(JsonNode array) {
    List<String> found = new ArrayList<>();
    array.forEach(item -> found.add(item.asText()));
    return List.copyOf(found);
  }
}
