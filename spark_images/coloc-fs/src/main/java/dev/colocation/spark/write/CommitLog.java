package dev.colocation.spark.write;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/** What this driver's last changes of tables committed, for a program that runs statements and reports them. */
public final class CommitLog {
  private static final int MAX_KEPT = 1000;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Deque<Entry> KEPT = new ArrayDeque<>();
  private static long added = 0;

  private CommitLog() {}

  /**
   * A change that ended well.
   *
   * @param change its label, as {@code status.snapshot.operation} has it
   * @param rows that it added, as {@code files}; both 0 when it was committed before, or there was nothing to commit
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

  /** How many changes there were so far. */
  public static synchronized long count() {
    return added;
  }

  /** The changes after the first {@code count}, as a JSON list, oldest first; of very many the newest. */
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
