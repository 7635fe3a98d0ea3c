package dev.colocation.spark.write;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.colocation.spark.cluster.ChangeCounts;
import dev.colocation.spark.cluster.RowCounts;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.OptionalLong;

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
   * @param rowsInserted by the commit, like {@code rowsUpdated} and {@code rowsDeleted}; null = unknown
   * @param filesRemoved by the commit; null = unknown
   */
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record Entry(
      String table, String change, long rows, long files, @JsonProperty("snapshot_id") long snapshotId,
      @JsonProperty("was_committed_before") boolean wasCommittedBefore, @JsonProperty("rows_inserted") Long rowsInserted,
      @JsonProperty("rows_updated") Long rowsUpdated, @JsonProperty("rows_deleted") Long rowsDeleted,
      @JsonProperty("files_removed") Long filesRemoved) {
    /** A change that committed nothing, or of which no more is known. */
    public Entry(String table, String change, long rows, long files, long snapshotId, boolean wasCommittedBefore) {
      this(table, change, rows, files, snapshotId, wasCommittedBefore, null, null, null, null);
    }
  }

  static void add(String table, String change, CommitResult result) {
    ChangeCounts changed = result.changed();
    OptionalLong removed = changed.filesRemoved();
    add(new Entry(
        table, change, result.rows(), result.files(), result.snapshotId(), result.wasCommittedBefore(),
        changed.rows().map(RowCounts::inserted).orElse(null), changed.rows().map(RowCounts::updated).orElse(null),
        changed.rows().map(RowCounts::deleted).orElse(null), removed.isPresent() ? removed.getAsLong() : null));
  }

  /** A statement that had nothing to commit. */
  static void addNothing(String table, String change, long snapshotId) {
    add(new Entry(table, change, 0, 0, snapshotId, false));
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
