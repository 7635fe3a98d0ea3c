package dev.colocation.spark.write;

import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.Names;
import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.write.Destination.AgentAccess;
import dev.colocation.spark.write.FileSender.SentFile;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The table that a statement changes.
 *
 * @param name in SQL
 * @param the table's uid when the statement was analyzed
 * @param snapshotId the snapshot when the statement was analyzed; 0 = before the first load
 * @param manifestSha256 of that snapshot; {@link Manifest#NOTHING} before the first load
 * @param fileSystem the options of {@code coloc://} for the table
 * @param patience how long to wait for the operator
 * @param compaction compacts the table
 * @param staging for statements that create or replace the table; their files are committed with its definition
 */
public record WriteTarget(
    String name, Cluster.Requests api, String namespace, String table, String uid, long snapshotId, String manifestSha256,
    Map<String, String> fileSystem, Duration patience, Compactor compaction, Optional<Staging> staging) {

  /** Merges the files of each bucket and partition that has more than this number. */
  public interface Compactor {
    Compaction.Result run(int mostFiles) throws Exception;
  }

  /** A table that is being created or replaced. */
  public interface Staging {
    /** The layout for new files. */
    TableLayout layout();

    /** Takes the files, to be committed with the definition, once per key. */
    void take(Transaction transaction, List<SentFile> sent, Optional<CommitKey> key);
  }

  /**
   * Begins a change.
   *
   * @throws WriteException.NotReady when the table does not take changes in time
   * @throws WriteException.LoadConflict when it was dropped and recreated meanwhile
   */
  public Transaction begin() {
    Transaction transaction = Transaction.begin(api, namespace, table, patience, AgentAccess.of(fileSystem));
    if (!transaction.table().uid().equals(uid)) {
      throw new WriteException.LoadConflict(
          "table " + namespace + "." + table + " was dropped and recreated meanwhile; start again");
    }
    return transaction;
  }

  /** Of the table's files, {@code <namespace>/<table>-<uid8>}. */
  String folder() {
    return namespace + "/" + Names.directory(table, uid);
  }

  TableLayout layout(Transaction transaction) {
    return staging.map(Staging::layout).orElseGet(() -> transaction.table().layout());
  }

  /** A table of the catalog that statements write to, as they were analyzed with it. */
  public interface Writable {
    /** The layout of files. */
    TableLayout layout();

    /** The table's, as far as it was known then: what tasks are planned by. Each row's bucket is computed as files are written. */
    int plannedBuckets();

    /** What is changed. */
    WriteTarget target();
  }
}
