package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.colocation.spark.cluster.ChangeCounts;
import dev.colocation.spark.cluster.RowCounts;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Each commit counts once, by what became of it. */
class CommitMetricTest {
  private static CommitResult result(ChangeCounts changed, boolean wasCommittedBefore) {
    return new CommitResult(3, 10, 2, 500, 0, List.of(), List.of(), "", changed, wasCommittedBefore);
  }

  private static List<Long> totals() {
    return Arrays.stream(CommitMetric.values()).map(CommitMetric::total).toList();
  }

  @BeforeEach
  void beginAgain() {
    CommitMetric.clear();
  }

  @Test
  void commitsAreCountedByWhatBecameOfThem() {
    ChangeCounts known = new ChangeCounts(Optional.of(new RowCounts(1, 2, 4)), OptionalLong.of(2), OptionalLong.of(7));
    CommitMetric.counting(() -> result(known, false));
    assertEquals(List.of(1L, 0L, 0L, 7L, 500L, 7L), totals());
    CommitMetric.counting(() -> result(known, true));
    assertEquals(List.of(1L, 0L, 0L, 7L, 500L, 7L), totals(), "a repetition");
    CommitMetric.counting(() -> result(ChangeCounts.UNKNOWN, false));
    assertEquals(List.of(2L, 0L, 0L, 7L, 1000L, 7L), totals(), "a roll-back");
  }

  @Test
  void failuresAreCountedByTheirKind() {
    for (WriteException error : List.of(new WriteException.LoadConflict("later"), new WriteException.CommitUnknown("lost", null),
        new WriteException("another"))) {
      assertEquals(error, assertThrows(WriteException.class, () -> CommitMetric.counting(() -> {
        throw error;
      })));
    }
    assertEquals(List.of(0L, 1L, 1L, 0L, 0L, 0L), totals());
  }
}
