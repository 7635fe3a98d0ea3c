package dev.colocation.spark.fs;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;

/**
 * The files of one bucket of the group in one snapshot, in little memory: sorted paths, and in parallel arrays lengths and keys.
 *
 * <p>Every file's bucket is checked against its name, see {@link Buckets#refusal}.
 */
final class BucketFiles {
  /** Receives each file, in the order of paths. */
  public interface Visitor {
    void visit(String path, Manifest.File file);
  }

  static final BucketFiles NONE = new BucketFiles(0, new String[0], new long[0], new KeyRange[0]);

  private final int bucket;
  private final String[] paths;
  private final long[] bytes;
  private final KeyRange[] keys;

  private BucketFiles(int bucket, String[] paths, long[] bytes, KeyRange[] keys) {
    this.bucket = bucket;
    this.paths = paths;
    this.bytes = bytes;
    this.keys = keys;
  }

  int size() {
    return paths.length;
  }

  /** The file of this path; null when there is none. */
  Manifest.File find(String path) {
    int index = Arrays.binarySearch(paths, path);
    return index < 0 ? null : file(index);
  }

  /** The files whose paths begin with a prefix. */
  void visit(String prefix, Visitor visitor) {
    int found = Arrays.binarySearch(paths, prefix);
    for (int index = found < 0 ? -found - 1 : found; index < paths.length && paths[index].startsWith(prefix); index++) {
      visitor.visit(paths[index], file(index));
    }
  }

  private Manifest.File file(int index) {
    return new Manifest.File(bytes[index], bucket, keys[index]);
  }

  /** Reads a JSON array of files into their buckets. */
  static void read(JsonParser json, Builders builders) throws IOException {
    require(json, JsonToken.START_ARRAY, "the list of files");
    while (json.nextToken() != JsonToken.END_ARRAY) {
      require(json, JsonToken.START_OBJECT, "a file");
      readFile(json, builders);
    }
  }

  private static void readFile(JsonParser json, Builders builders) throws IOException {
    String path = "";
    long bytes = -1;
    int bucket = -1;
    KeyRange keys = KeyRange.NONE;
    while (json.nextToken() == JsonToken.FIELD_NAME) {
      String name = json.currentName();
      JsonToken value = json.nextToken();
      switch (name) {
        case "path" -> path = json.getText();
        case "bytes" -> bytes = value == JsonToken.VALUE_NUMBER_INT ? json.getLongValue() : -1;
        case "bucket" -> bucket = value == JsonToken.VALUE_NUMBER_INT ? json.getIntValue() : -1;
        case "keyRange" -> keys = KeyRange.read(json);
        default -> json.skipChildren();
      }
    }
    if (bytes < 0 || bytes > ManifestHeader.MAX_COUNT) {
      throw new IOException("file " + path + " does not state how many bytes it has");
    }
    builders.add(path, bytes, bucket, keys);
  }

  private static void require(JsonParser json, JsonToken wanted, String what) throws IOException {
    if (json.currentToken() != wanted) {
      throw new IOException(what + " is " + json.currentToken() + "; allowed: " + wanted);
    }
  }

  /** Collects files by their buckets. */
  static final class Builders {
    private final List<Builder> byBucket = new ArrayList<>();

    void add(String path, long bytes, int bucket, KeyRange keys) throws IOException {
      if (bucket < 0 || bucket >= ManifestHeader.MAX_BUCKETS) {
        throw new IOException("file " + path + " is in bucket " + bucket + "; allowed: 0 to " + (ManifestHeader.MAX_BUCKETS - 1));
      }
      while (byBucket.size() <= bucket) {
        byBucket.add(null);
      }
      Builder builder = byBucket.get(bucket);
      if (builder == null) {
        builder = new Builder();
        byBucket.set(bucket, builder);
      }
      builder.add(new Entry(path, bytes, keys));
    }

    /** The files, if all of them are in this bucket; else null. */
    BucketFiles only(int bucket, Buckets buckets) throws IOException {
      if (byBucket.isEmpty()) {
        return NONE;
      }
      boolean others = byBucket.subList(0, byBucket.size() - 1).stream().anyMatch(Objects::nonNull);
      return others || byBucket.size() != bucket + 1 ? null : byBucket.get(bucket).build(bucket, buckets);
    }

    /**
     * All files; index = bucket.
     *
     * @throws IOException when a file's name has another bucket, or one that the table does not have
     */
    BucketFiles[] build(Buckets buckets) throws IOException {
      BucketFiles[] built = new BucketFiles[buckets.ofGroup()];
      for (int bucket = 0; bucket < Math.max(built.length, byBucket.size()); bucket++) {
        Builder builder = bucket < byBucket.size() ? byBucket.get(bucket) : null;
        BucketFiles files = builder == null ? NONE : builder.build(bucket, buckets);
        if (bucket < built.length) {
          built[bucket] = files;
        }
      }
      return built;
    }
  }

  private record Entry(String path, long bytes, KeyRange keys) {}

  private static final class Builder {
    private final List<Entry> files = new ArrayList<>();

    void add(Entry file) {
      files.add(file);
    }

    BucketFiles build(int bucket, Buckets buckets) throws IOException {
      Entry[] entries = files.toArray(Entry[]::new);
      Arrays.sort(entries, Comparator.comparing(Entry::path));
      String[] sorted = new String[entries.length];
      long[] lengths = new long[entries.length];
      KeyRange[] ranges = new KeyRange[entries.length];
      for (int index = 0; index < entries.length; index++) {
        sorted[index] = entries[index].path();
        lengths[index] = entries[index].bytes();
        ranges[index] = entries[index].keys();
        String refusal = buckets.refusal(sorted[index], bucket);
        if (!refusal.isEmpty()) {
          throw new IOException(refusal);
        }
        if (index > 0 && sorted[index].equals(sorted[index - 1])) {
          throw new IOException("file " + sorted[index] + " is listed twice");
        }
      }
      return new BucketFiles(bucket, sorted, lengths, ranges);
    }
  }
}
