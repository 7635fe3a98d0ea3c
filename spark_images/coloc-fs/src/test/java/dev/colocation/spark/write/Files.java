package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.KeyRange;
import java.util.Collections;
import java.util.Locale;
import java.util.Map;

/** Data files with names that say which they are. */
final class Files {
  static final DataFile A = file("0000000a", "a");
  static final DataFile B = file("0000000b", "a");
  static final DataFile C = file("0000000c", "b");
  static final DataFile D = file("0000000d", "a");
  static final DataFile NULL = file("0000000e", null);

  private Files() {}

  /** Ten rows of one day. */
  static DataFile file(String load, String day) {
    return file(load, day, 0);
  }

  static DataFile file(String load, String day, int bucket) {
    String folder = day == null ? "__HIVE_DEFAULT_PARTITION__" : day;
    String path = "data/day=" + folder + "/part-" + load
        + String.format(Locale.ROOT, "-1_%05d.c000.zstd.parquet", bucket);
    return new DataFile(path, bucket, day(day), 10, 100, "0".repeat(64), KeyRange.NONE);
  }

  /** The same for a table with four buckets in a group with two. */
  static DataFile ofFour(String load, String day, int bucketOfTable) {
    Buckets four = new Buckets(2, 4);
    String path = "data/day=" + day + "/part-" + load + "-1" + four.suffix(bucketOfTable) + ".c000.zstd.parquet";
    return new DataFile(path, four.place(bucketOfTable), day(day), 10, 100, "0".repeat(64), KeyRange.NONE);
  }

  static Map<String, String> day(String value) {
    return Collections.singletonMap("day", value);
  }
}
