package dev.colocation.spark.cluster;

import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.KeyRange;
import java.io.Serializable;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * One immutable Parquet file of a table.
 *
 * @param path below the table's folder, {@code data/…}; its name ends like Spark's names for files of the table's bucket
 * @param bucket of the group, by which it is placed
 * @param partition for each partition column, in the table's order, its value in Spark's string form; null = NULL
 * @param sha256 64 hex digits
 * @param keys between which its rows lie
 */
public record DataFile(String path, int bucket, Map<String, String> partition, long rows, long bytes, String sha256, KeyRange keys)
    implements Serializable {

  public DataFile {
    partition = Collections.unmodifiableMap(new LinkedHashMap<>(partition));
  }

  /** The table's bucket, as the name has it; the same as {@link #bucket} unless the table has more buckets than its group. */
  public int bucketOfTable() {
    return Buckets.bucketOf(path);
  }
}
