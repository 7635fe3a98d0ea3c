package dev.colocation.spark.write;

/** How new rows go together with those that are there. */
public enum Mode {
  APPEND("append"),
  /** All rows are replaced. */
  OVERWRITE("overwrite"),
  /** The partitions that the rows are in are replaced: Spark's dynamic INSERT OVERWRITE. */
  OVERWRITE_PARTITIONS("overwrite-partitions"),
  /** Named partitions are replaced, also when no row comes: SQL's INSERT OVERWRITE … PARTITION (dt='x'). */
  OVERWRITE_MATCHING("overwrite-matching");

  private final String label;

  Mode(String label) {
    this.label = label;
  }

  /** As users write it, and as messages say it. */
  public String label() {
    return label;
  }
}
