package dev.colocation.spark.write;

import dev.colocation.spark.cluster.WriteException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * What a task says to the driver: the files that it has sent, or why it gave up. A task that gives up ends well for Spark, which
 * would else run it again: rows do not change, and the sender has already tried for long enough.
 *
 * @param refusal null when there is none
 */
record TaskFiles(List<SentFile> sent, WriteException refusal) implements WriterCommitMessage {
  TaskFiles {
    sent = List.copyOf(sent);
  }

  /**
   * The files of all tasks.
   *
   * @throws SchemaMismatch when the rows do not fit the table
   * @throws ReplicasMissing when a majority of a bucket's nodes did not take a file
   */
  static List<SentFile> sent(WriterCommitMessage[] messages) {
    List<SentFile> sent = new ArrayList<>();
    for (WriterCommitMessage message : messages) {
      TaskFiles task = (TaskFiles) message;
      if (task.refusal != null) {
        throw task.refusal;
      }
      sent.addAll(task.sent);
    }
    return sent;
  }
}
