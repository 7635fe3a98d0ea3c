package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.colocation.spark.cluster.WriteException.LoadConflict;
import dev.colocation.spark.cluster.WriteException.SourceLost;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkException;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.errors.SparkCoreErrors$;
import org.apache.spark.storage.RDDBlockId;
import org.apache.spark.storage.StorageLevel;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import scala.collection.immutable.Map$;

/** Which errors begin a MERGE again, and how often. */
class SourceAttemptsTest {
  private static final int OURS = 29;

  private static Throwable missing(int rdd) {
    return SparkCoreErrors$.MODULE$.checkpointRDDBlockIdNotFoundError(new RDDBlockId(rdd, 3));
  }

  private static Throwable aborted(Throwable cause) {
    return new SparkException("Job aborted due to stage failure: Task 3 in stage 7.0 failed 4 times", cause);
  }

  private static Throwable severalStages(Throwable first, Throwable second) {
    Throwable failed = aborted(first);
    failed.addSuppressed(second);
    return failed;
  }

  private static Throwable refused(String condition) {
    return new SparkRuntimeException(condition, Map$.MODULE$.<String, String>empty(), null, new QueryContext[0], "");
  }

  static Stream<Arguments> errors() {
    return Stream.of(
        Arguments.of("as thrown by a task", missing(OURS), true),
        Arguments.of("as thrown by a job", aborted(missing(OURS)), true),
        Arguments.of("as thrown by a query", new IllegalStateException(aborted(missing(OURS))), true),
        Arguments.of("one of several stages", severalStages(new IllegalStateException("another"), aborted(missing(OURS))), true),
        Arguments.of("rows that a user keeps", aborted(missing(OURS + 1)), false),
        Arguments.of("rows whose number begins alike", aborted(missing(OURS * 10)), false),
        Arguments.of("a text with the same words", aborted(new IllegalStateException(missing(OURS).getMessage())), false),
        Arguments.of("a conflict", new LoadConflict("another commit was first"), false),
        Arguments.of("several rows of the source", refused("MERGE_CARDINALITY_VIOLATION"), false),
        Arguments.of("executors that were lost while tasks ran", aborted(null), false));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("errors")
  void onlyMissingBlocksOfTheSourceAreLost(String name, Throwable error, boolean isLost) {
    assertEquals(isLost ? Optional.of("rdd_29_3") : Optional.empty(), SourceAttempts.lostBlock(error, OURS));
  }

  @Test
  void anErrorMayBeItsOwnCause() {
    Exception first = new Exception("first");
    first.initCause(new Exception("second", first));
    assertEquals(Optional.empty(), SourceAttempts.lostBlock(first, OURS));
  }

  private final List<Integer> copies = new ArrayList<>();

  private String lostUntil(int attempt, StorageLevel level) {
    copies.add(level.replication());
    if (copies.size() < attempt) {
      throw new SourceLost("rdd_29_3", aborted(missing(OURS)));
    }
    return "done";
  }

  @Test
  void laterAttemptsKeepTwoCopies() {
    assertEquals("done", SourceAttempts.run("MERGE of t", level -> lostUntil(3, level)));
    assertEquals(List.of(1, 2, 2), copies);
  }

  @Test
  void attemptsAreBounded() {
    SourceLost lost = assertThrows(SourceLost.class, () -> SourceAttempts.run("MERGE of t", level -> lostUntil(9, level)));
    assertEquals(SourceAttempts.MAX_ATTEMPTS, copies.size());
    assertEquals("rdd_29_3", SourceAttempts.lostBlock(lost, OURS).orElseThrow());
  }

  @Test
  void otherErrorsAreThrownAtOnce() {
    LoadConflict conflict = new LoadConflict("another commit was first");
    assertSame(conflict, assertThrows(LoadConflict.class, () -> SourceAttempts.run("MERGE of t", level -> {
      lostUntil(1, level);
      throw conflict;
    })));
    assertEquals(List.of(1), copies);
  }
}
