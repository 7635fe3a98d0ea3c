package dev.colocation.spark.cluster;

import java.io.Serializable;

/**
 * How many rows a change inserted, updated and deleted. Rows that are carried over unchanged into new files count as none of them.
 */
public record RowCounts(long inserted, long updated, long deleted) implements Serializable {
  /** No row was changed. */
  public static final RowCounts NONE = new RowCounts(0, 0, 0);

  public RowCounts {
    if (inserted < 0 || updated < 0 || deleted < 0) {
      throw new IllegalArgumentException("inserted " + inserted + ", updated " + updated + ", deleted " + deleted
          + " rows; allowed: 0 or more");
    }
  }

  /** The counts of two parts of one change. */
  public RowCounts plus(RowCounts other) {
    return new RowCounts(inserted + other.inserted, updated + other.updated, deleted + other.deleted);
  }

  @Override
  public String toString() {
    return inserted + " inserted, " + updated + " updated, " + deleted + " deleted";
  }
}
