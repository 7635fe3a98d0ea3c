package dev.colocation.spark.cluster;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/** Which replaced snapshots can still be read, as {@code model/table.py} says: one rule for commits and operator. Pure. */
public final class RetainedHistory {
  private RetainedHistory() {}

  /**
   * The snapshots that stay readable when a table gets a new one, the newest first. A snapshot was replaced when the next newer
   * one was committed.
   *
   * @param committedAt of the new one
   */
  public static List<Snapshot> after(TableState table, Instant committedAt, Instant now) {
    List<Snapshot> kept = new ArrayList<>();
    Instant replacedAt = committedAt;
    for (Snapshot replaced : table.listed()) {
      boolean isOld = Duration.between(replacedAt, now).compareTo(table.retention()) >= 0;
      if (kept.size() >= table.retainedSnapshots() || isOld) {
        break; // those behind it were replaced before it
      }
      kept.add(replaced);
      replacedAt = replaced.committedAt();
    }
    return List.copyOf(kept);
  }
}
