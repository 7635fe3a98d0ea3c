package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.WriteException.SourceLost;
import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.spark.SparkThrowable;
import org.apache.spark.storage.StorageLevel;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Begins a MERGE again when executors that kept rows of its source were lost. Only its commit, the last step, changes the table, and
 * reads nothing of the source: a lost attempt has committed nothing.
 */
final class SourceAttempts {
  /** As many as Spark gives a task by default, and Delta a MERGE. */
  static final int MAX_ATTEMPTS = 4;

  private static final Logger LOG = LoggerFactory.getLogger(SourceAttempts.class);
  private static final String LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND";

  private SourceAttempts() {}

  /**
   * Runs a statement, again while its source is lost.
   *
   * @param statement for users
   * @param attempt runs it; {@code StorageLevel}: how the source is kept
   * @throws SourceLost when all attempts have lost it
   */
  static <T> T run(String statement, Function<StorageLevel, T> attempt) {
    for (int number = 1; ; number++) {
      try {
        return attempt.apply(level(number));
      } catch (SourceLost lost) {
        if (number == MAX_ATTEMPTS) {
          throw new SourceLost(statement + ": each of " + MAX_ATTEMPTS + " attempts lost executors that kept rows of the source; "
              + "nothing was changed. Run it again when fewer executors are lost, or write its source to a table of the group first", lost);
        }
        LOG.warn("{}: attempt {} of {} is given up, the next one begins: {}", statement, number, MAX_ATTEMPTS, lost.getMessage());
      }
    }
  }

  /** Two copies where executors are known to be lost; on disk, since they may be lost because their memory ends. */
  private static StorageLevel level(int attempt) {
    return attempt == 1 ? StorageLevel.MEMORY_AND_DISK() : StorageLevel.DISK_ONLY_2();
  }

  /** The block of kept rows that no executor has, if that is why an error was thrown. Of other rows, users keep the blocks. */
  static Optional<String> lostBlock(Throwable error, int rddId) {
    return withCauses(error, Collections.newSetFromMap(new IdentityHashMap<>()))
        .filter(one -> one instanceof SparkThrowable known && LOST.equals(known.getCondition()))
        .map(one -> ((SparkThrowable) one).getMessageParameters().getOrDefault("rddBlockId", ""))
        .filter(block -> block.startsWith("rdd_" + rddId + "_")).findFirst();
  }

  /** An error and all below it; of several stages that fail, Spark suppresses all errors but one. */
  private static Stream<Throwable> withCauses(Throwable error, Set<Throwable> seen) {
    if (error == null || !seen.add(error)) {
      return Stream.of();
    }
    return Stream.concat(Stream.of(error), Stream.concat(Stream.of(error.getCause()), Arrays.stream(error.getSuppressed()))
        .flatMap(below -> withCauses(below, seen)));
  }
}
