package dev.colocation.spark.write;

import dev.colocation.spark.cluster.TableState;
import dev.colocation.spark.cluster.WriteException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The compaction that {@code spec.compaction} asks for after a write. */
final class AutomaticCompaction {
  private static final Logger LOG = LoggerFactory.getLogger(AutomaticCompaction.class);
  private static final int MAX_FAILURE_CHARACTERS = 500;

  private AutomaticCompaction() {}

  /**
   * How it went.
   *
   * @param result null = nothing was asked for, or to be done
   * @param failure empty = none
   */
  record Outcome(CompactionResult result, String failure) {
    static final Outcome NONE = new Outcome(null, "");
  }

  /** The write is committed: whatever goes wrong here is a warning in the log and in the write's result, never an error. */
  static Outcome after(WriteTarget target, TableState table) {
    try {
      if (!table.compactsAfterWrites()) {
        return Outcome.NONE;
      }
      CompactionResult done = target.compaction().run(table.maxFilesPerBucket());
      return done.filesBefore() == 0 ? Outcome.NONE : new Outcome(done, "");
    } catch (Exception | LinkageError error) {
      LOG.warn("the load of {} is committed; not compacted", target.name(), error);
      return new Outcome(null, said(error));
    }
  }

  /** The error's type, unless its message begins with one, and the beginning of that, in one line. */
  private static String said(Throwable error) {
    String text = String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
    String type = error instanceof WriteException ? "" : error.getClass().getSimpleName() + ": ";
    return type + text.substring(0, Math.min(text.length(), MAX_FAILURE_CHARACTERS));
  }
}
