package dev.colocation.spark.write;

import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.write.FileSender.SentFile;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The one place through which SQL's changes of tables are committed. */
public final class Commits {
  private static final Logger LOG = LoggerFactory.getLogger(Commits.class);

  private Commits() {}

  /** Commits a change; errors keep their words, since Spark shows them to the user. */
  public static CommitResult commit(
      String table, Transaction transaction, Change change, List<SentFile> sent, Optional<CommitKey> key) {
    CommitResult result;
    try {
      result = transaction.commit(change, sent, key);
    } catch (IOException missing) {
      throw Commits.<RuntimeException>thrown(missing);
    }
    afterCommit(table, change, result);
    CommitLog.add(table, change.label(), result);
    return result;
  }

  /**
   * Runs a commit of rows that need another definition of the table. After a failure the definition is changed back; not when it
   * is unknown whether the rows are committed: they may need it, and if they are not there, the statement is started again.
   */
  public static void orUndo(Runnable commit, Runnable undo) {
    try {
      commit.run();
    } catch (WriteException.CommitUnknown doubt) {
      throw doubt;
    } catch (Exception error) { // checked ones come through Spark's callers, too
      try {
        undo.run();
      } catch (Exception another) {
        error.addSuppressed(another);
      }
      throw Commits.<RuntimeException>thrown(error);
    }
  }

  /** What follows a commit; nothing of it may fail the statement, which is committed. */
  private static void afterCommit(String table, Change change, CommitResult result) {
    if (result.wasCommittedBefore()) {
      LOG.info("{}: {} was committed before, as snapshot {}", table, change.label(), result.snapshotId());
      return;
    }
    LOG.info("{}: {} committed {} rows in {} files as snapshot {}", table, change.label(), result.rows(), result.files(),
        result.snapshotId());
    if (result.replicasMissing() > 0) {
      LOG.warn("{}: {} copies of new files are still to be made by the operator: {}", table, result.replicasMissing(),
          result.substitutes());
    }
  }

  /** Spark's callers are Scala, which knows no checked exceptions. */
  @SuppressWarnings("unchecked")
  static <E extends Throwable> RuntimeException thrown(Throwable error) throws E {
    throw (E) error;
  }
}
