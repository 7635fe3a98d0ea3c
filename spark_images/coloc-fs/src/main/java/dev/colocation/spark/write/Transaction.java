package dev.colocation.spark.write;

import dev.colocation.spark.cluster.Cluster.NoAnswer;
import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.ClusterApi;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.cluster.TableState;
import dev.colocation.spark.cluster.Timer;
import dev.colocation.spark.cluster.WriteException.NoAgentAnswers;
import dev.colocation.spark.cluster.WriteException.ReplicasMissing;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.RollBack;
import dev.colocation.spark.write.Commit.Doubt;
import dev.colocation.spark.write.Destination.AgentAccess;
import dev.colocation.spark.write.FileSender.SentFile;
import dev.colocation.spark.write.WriteResult.Substitute;
import java.io.IOException;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;

/** One change of a table, from the first look at it to its commit. */
public final class Transaction {
  private static final Duration POLL = Duration.ofSeconds(1);

  private final Cluster cluster;
  private final TableState table;
  private final Destination destination;
  private final Duration wait;
  private final Timer timer;

  private Transaction(Cluster cluster, TableState table, Destination destination, Duration wait, Timer timer) {
    this.cluster = cluster;
    this.table = table;
    this.destination = destination;
    this.wait = wait;
    this.timer = timer;
  }

  /**
   * Looks at the table as soon as it can be changed.
   *
   * @param wait how long to wait, again before the commit, for the table to be accepted, its group to have a map, and enough
   *     agents to be ready
   * @throws WriteException.NotReady when it cannot within that time; says what is missing
   */
  public static Transaction begin(ClusterApi api, String namespace, String table, Duration wait, AgentAccess access) {
    return begin(api, namespace, table, wait, access, Timer.REAL);
  }

  static Transaction begin(
      ClusterApi api, String namespace, String table, Duration wait, AgentAccess access, Timer timer) {
    Cluster cluster = new Cluster(api, timer);
    LoadTarget target = LoadTarget.await(cluster, namespace, table, wait, wait, timer);
    return new Transaction(cluster, target.table(), destination(target, access), wait, timer);
  }

  private static Destination destination(LoadTarget target, AgentAccess access) {
    TableState table = target.table();
    return new Destination(table.namespace(), table.directory(), target.buckets(), target.agents(), access);
  }

  /**
   * The same change, begun on the snapshot that a query has read of the table ({@code INSERT OVERWRITE t SELECT … FROM t}):
   * what was committed since counts as committed meanwhile.
   *
   * @param snapshotId 0 = before the first load
   * @param manifestSha256 of that snapshot: after a restore of etcd another one may have its id
   * @throws WriteException.LoadConflict when the table keeps no such snapshot any more
   */
  public Transaction startedOn(long snapshotId, String manifestSha256) {
    Optional<Snapshot> read = table.listed().stream()
        .filter(one -> one.id() == snapshotId && one.manifestSha256().equals(manifestSha256)).findFirst();
    if (snapshotId != 0 && read.isEmpty()) {
      throw new WriteException.LoadConflict("table " + table.fullName() + ": the change began on snapshot " + snapshotId
          + ", which the table no longer keeps; snapshot " + table.snapshotId()
          + " was committed meanwhile. Nothing was changed; start it again");
    }
    return new Transaction(cluster, table.withSnapshot(read), destination, wait, timer);
  }

  /** The table as it was when the change began. */
  public TableState table() {
    return table;
  }

  /** Where new files go. */
  public Destination destination() {
    return destination;
  }

  /**
   * The commit that the table took by this key, or by a later version of its writer.
   *
   * @throws WriteException.InvalidTable when the table's status does not say it
   */
  public Optional<CommitResult> committed(CommitKey key) {
    TableState newest = newest(wait);
    Optional<CommitResult> found = Commit.recorded(newest, Optional.of(key));
    if (found.isEmpty()) {
      newest.checkStatus();
    }
    return found;
  }

  /**
   * The files of a committed snapshot.
   *
   * @throws NoAgentAnswers when no agent gives its manifest
   */
  public List<DataFile> files(String manifestSha256) throws IOException {
    return new Publication(destination).read(manifestSha256).files();
  }

  /**
   * The change that makes an older snapshot's rows the table's again.
   *
   * @throws WriteException.LoadConflict when the table keeps no such snapshot, or its files are not laid out as the table is now
   * @throws NoAgentAnswers when no agent gives one of the manifests
   */
  public RollBack backTo(long snapshotId) throws IOException {
    Snapshot target = table.history().stream().filter(one -> one.id() == snapshotId).findFirst().orElseThrow(
        () -> new WriteException.LoadConflict("table " + table.fullName() + " keeps no snapshot " + snapshotId
            + " to go back to; it keeps: " + table.history().stream().map(one -> String.valueOf(one.id())).toList()));
    Publication publication = new Publication(destination);
    return RollBack.of(table, target, publication.read(target.manifestSha256()),
        publication.read(table.snapshot().orElseThrow().manifestSha256()));
  }

  /** Files that the table's nodes have already. */
  public List<SentFile> present(List<DataFile> files) {
    return files.stream().map(file -> new SentFile(file, destination.buckets().get(file.bucket()))).toList();
  }

  private TableState newest(Duration answerWait) {
    long started = timer.nanos();
    while (true) {
      try {
        return cluster.table(table.namespace(), table.name());
      } catch (NoAnswer lost) {
        if (timer.nanos() - started >= answerWait.toNanos()) {
          throw new WriteException.NotReady(lost.getMessage());
        }
        timer.sleep(POLL);
      }
    }
  }

  /**
   * Commits on the nodes that the map names by now. Once the compare-and-set has happened, nothing fails the change any more.
   *
   * @param sent what {@link FileSender} said of each of the change's files
   * @param key by which a repetition is known; empty = none
   * @throws WriteException.LoadConflict when a change overtook this one that it may not go on top of, or the table's layout has
   *     changed
   * @throws WriteException.CommitUnknown when the API server did not say whether the commit happened
   * @throws WriteException.InvalidTable when somebody spoiled the table's status, which only {@link Mode#OVERWRITE} may replace
   * @throws WriteException.NotReady when the table, its map or its agents have gone
   * @throws ReplicasMissing when fewer nodes than a majority of a bucket's replicas hold the manifest and the bucket's new files
   * @throws NoAgentAnswers when no agent gives the committed manifest, or a new file whose bucket has moved
   */
  public CommitResult commit(Change change, List<SentFile> sent, Optional<CommitKey> key) throws IOException {
    checkAllWereSent(change, sent);
    // The work is done: the API server is waited for as long as it is after the compare-and-set.
    Duration answerWait = wait.compareTo(Doubt.ANSWER_DEADLINE) > 0 ? wait : Doubt.ANSWER_DEADLINE;
    Optional<CommitResult> before = key.isEmpty() ? Optional.empty() : Commit.recorded(newest(answerWait), key);
    if (before.isPresent()) {
      return before.get();
    }
    LoadTarget current = LoadTarget.await(cluster, table.namespace(), table.name(), wait, answerWait, timer);
    OptionalInt buckets = change.madeForBuckets();
    if (buckets.isPresent() && buckets.getAsInt() != current.buckets().size()) {
      throw new WriteException.LoadConflict("group " + current.group().key().name() + " had " + buckets.getAsInt()
          + " buckets when the load began, now it has " + current.buckets().size() + "; load again");
    }
    Commit.refuseAnew(table, current.table());
    Publication publication = new Publication(destination(current, destination.access()), destination.agents());
    publication.followMap(destination.buckets(), sent);
    return new Commit(cluster, storage(publication, sent), change, key, table, timer).run(current.table());
  }

  private static Commit.Storage storage(Publication publication, List<SentFile> sent) {
    return new Commit.Storage() {
      @Override
      public StoredManifest read(String sha256) throws IOException {
        return publication.read(sha256);
      }

      @Override
      public Publication.Published publish(NextManifest manifest) throws IOException {
        return publication.publish(manifest, sent);
      }
    };
  }

  private static void checkAllWereSent(Change change, List<SentFile> sent) {
    Set<DataFile> missing = new HashSet<>(change.files());
    sent.forEach(one -> missing.remove(one.file()));
    if (!missing.isEmpty() || sent.size() != change.files().size()) {
      throw new IllegalArgumentException(sent.size() + " files were sent for a change of " + change.files().size()
          + "; not sent: " + missing.stream().map(DataFile::path).sorted().toList());
    }
  }

  /**
   * What a commit did.
   *
   * @param snapshotId the table's new snapshot; of one that was committed before, that one
   * @param rows that this commit added, as {@code files} and {@code bytes}: 0 when it was committed before
   * @param bytes of one replica
   * @param replicasMissing copies of new files that the operator has yet to make
   * @param substitutes where copies lie meanwhile
   * @param removed the committed files that went, as far as the change had to know them; none of an overwrite of everything
   * @param manifestSha256 of the snapshot; empty when it was committed before, and the table does not list it any more
   * @param wasCommittedBefore whether the table had it already, by its {@link CommitKey}; then nothing was changed
   */
  public record CommitResult(
      long snapshotId, long rows, long files, long bytes, int replicasMissing, List<Substitute> substitutes,
      List<DataFile> removed, String manifestSha256, boolean wasCommittedBefore) {}
}
