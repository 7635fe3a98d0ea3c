package dev.colocation.spark.write;

import dev.colocation.spark.cluster.RowCounts;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Supplier;

/** What the commits of this application did so far, for Spark's metrics system. */
public enum CommitMetric {
  /** Changes of tables, compactions included; repetitions of a committed change do not count. */
  COMMITTED("committed"),
  /** Changes that another commit kept from being committed. */
  CONFLICTS("conflicts"),
  /** Changes of which it could not be found out whether they were committed. */
  UNKNOWN("unknown"),
  /** Rows that commits inserted, updated or deleted. */
  ROWS_CHANGED("rowsChanged"),
  /** Bytes of committed files, of one replica. */
  BYTES_WRITTEN("bytesWritten"),
  /** Files that commits replaced or removed. */
  FILES_REMOVED("filesRemoved");

  private final String word;
  private final LongAdder sum = new LongAdder();

  CommitMetric(String word) {
    this.word = word;
  }

  /** Its name in metrics. */
  public String word() {
    return word;
  }

  public long total() {
    return sum.sum();
  }

  /** In local mode one JVM may run several applications one after the other. */
  public static void clear() {
    for (CommitMetric metric : values()) {
      metric.sum.reset();
    }
  }

  /** Counts what a commit does, or why it fails. */
  static CommitResult counting(Supplier<CommitResult> commit) {
    try {
      CommitResult done = commit.get();
      if (!done.wasCommittedBefore()) {
        COMMITTED.sum.increment();
        ROWS_CHANGED.sum.add(done.changed().rows().map(CommitMetric::changed).orElse(0L));
        BYTES_WRITTEN.sum.add(done.bytes());
        FILES_REMOVED.sum.add(done.changed().filesRemoved().orElse(0));
      }
      return done;
    } catch (WriteException.LoadConflict conflict) {
      CONFLICTS.sum.increment();
      throw conflict;
    } catch (WriteException.CommitUnknown unknown) {
      UNKNOWN.sum.increment();
      throw unknown;
    }
  }

  private static long changed(RowCounts rows) {
    return rows.inserted() + rows.updated() + rows.deleted();
  }
}
