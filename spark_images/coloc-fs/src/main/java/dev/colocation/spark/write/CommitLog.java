package dev.colocation.spark.write;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/** The last changes that this driver committed, for programs that run statements and report their results. */
public final class CommitLog {
  private static final int MAX_KEPT = 1000;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Deque<Entry> KEPT = new ArrayDeque<>();
  private static long added = 0;

  private CommitLog() {}

  /**
   * A change that succeeded.
   *
   * @param change its label, as {@code status.snapshot.operation} has it
   * @param rows that it added, like {@code files}; both 0 when it was committed before, or there was nothing to commit
   * @param snapshotId the table's snapshot then; 0 = none
   * @param wasCommittedBefore by its key; then nothing was changed
   */
  public record Entry(
      String table, String change, long rows, long files, @JsonProperty("snapshot_id") long snapshotId,
      @JsonProperty("was_committed_before") boolean wasCommittedBefore) {}

  static void add(String table, String change, CommitResult result) {
    add(new Entry(table, change, result.rows(), result.files(), result.snapshotId(), result.wasCommittedBefore()));
  }

  static synchronized void add(Entry entry) {
    KEPT.addLast(entry);
    added++;
    if (KEPT.size() > MAX_KEPT) {
      KEPT.removeFirst();
    }
  }

  /** The number of changes so far. */
  public static synchronized long count() {
    return added;
  }

  /** The changes after the first {@code count}, as a JSON list, oldest first; only the newest ones are kept. */
  public static synchronized String since(long count) {
    List<Entry> newest = new ArrayList<>(KEPT);
    int wanted = (int) Math.min(newest.size(), added - count);
    try {
      return JSON.writeValueAsString(newest.subList(newest.size() - wanted, newest.size()));
    } catch (JsonProcessingException error) {
      throw new IllegalStateException("a record of numbers and texts is always JSON", error);
    }
  }
}
