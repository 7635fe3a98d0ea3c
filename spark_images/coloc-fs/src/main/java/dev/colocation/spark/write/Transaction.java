package dev.colocation.spark.write;

import dev.colocation.spark.catalog.ClusterApi;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** One change of a table, from the first look at it to its commit. */
public final class Transaction {
  private final TableState table;
  private final Destination destination;

  private Transaction(TableState table, Destination destination) {
    this.table = table;
    this.destination = destination;
  }

  /**
   * Looks at the table as soon as it can be changed.
   *
   * @param wait how long to wait, again before the commit, for the table to be accepted, its group to have a map, and enough
   *     agents to be ready
   * @throws WriteException.NotReady when it cannot within that time; says what is missing
   */
  public static Transaction begin(ClusterApi api, String namespace, String table, Duration wait, AgentAccess access) {
    throw new UnsupportedOperationException();
  }

  /**
   * The same change, begun on the snapshot that a query has read of the table ({@code INSERT OVERWRITE t SELECT … FROM t}):
   * what was committed since counts as committed meanwhile.
   *
   * @param snapshotId 0 = before the first load
   */
  public Transaction startedOn(long snapshotId) {
    throw new UnsupportedOperationException();
  }

  /** The table as it was when the change began. */
  public TableState table() {
    return table;
  }

  /** Where new files go. */
  public Destination destination() {
    return destination;
  }

  /** The commit that the table took by this key, or by a later version of its writer. */
  public Optional<CommitResult> committed(CommitKey key) {
    throw new UnsupportedOperationException();
  }

  /**
   * Commits on the nodes that the map names by now.
   *
   * @param key by which a repetition is known; empty = none
   * @throws WriteException.LoadConflict when a change overtook this one that it may not go on top of, or the table's layout
   *     has changed
   * @throws WriteException.CommitUnknown when the API server did not say whether the commit happened
   * @throws ReplicasMissing when fewer nodes than a majority of a bucket's replicas hold the manifest and the bucket's new
   *     files
   */
  public CommitResult commit(Change change, List<SentFile> sent, Optional<CommitKey> key) throws ReplicasMissing {
    throw new UnsupportedOperationException();
  }
}
