package dev.colocation.spark.write;

import dev.colocation.spark.cluster.ChangeCounts;
import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.Cluster.NoAnswer;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.cluster.Timer;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.cluster.WriteException.NoAgentAnswers;
import dev.colocation.spark.cluster.WriteException.ReplicasMissing;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.RollBack;
import dev.colocation.spark.write.Destination.AgentAccess;
import dev.colocation.spark.write.FileSender.SentFile;
import java.io.IOException;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One change of a table, from reading the table to the commit.
 *
 * <p>A commit's walk: this class checks that the table can be changed and where its files are; {@link Commit} publishes the change
 * and decides, by the rules of {@link Change}, what to do about other commits; {@link CompareAndSet} sets the status.
 */
public final class Transaction {
  private static final Logger LOG = LoggerFactory.getLogger(Transaction.class);
  private static final Duration POLL = Duration.ofSeconds(1);

  private final Cluster cluster;
  private final ColocatedTable table;
  private final Destination destination;
  private final Duration wait;
  private final Timer timer;

  private Transaction(Cluster cluster, ColocatedTable table, Destination destination, Duration wait, Timer timer) {
    this.cluster = cluster;
    this.table = table;
    this.destination = destination;
    this.wait = wait;
    this.timer = timer;
  }

  /**
   * Reads the table as soon as it can be changed.
   *
   * @param wait how long to wait, again before the commit, for the table to be accepted, its group to have a map, and enough
   *     agents to be ready
   * @throws WriteException.NotReady when it cannot within that time; the message names what is missing
   */
  public static Transaction begin(Cluster.Requests api, String namespace, String table, Duration wait, AgentAccess access) {
    return begin(api, namespace, table, wait, access, Timer.REAL);
  }

  static Transaction begin(
      Cluster.Requests api, String namespace, String table, Duration wait, AgentAccess access, Timer timer) {
    Cluster cluster = new Cluster(api, timer);
    LoadTarget target = LoadTarget.await(cluster, namespace, table, wait, wait, timer);
    return new Transaction(cluster, target.table(), destination(target, access), wait, timer);
  }

  private static Destination destination(LoadTarget target, AgentAccess access) {
    ColocatedTable table = target.table();
    return new Destination(table.namespace(), table.directory(), target.buckets(), target.ofTable(), target.agents(), access);
  }

  /**
   * The same change, begun on the snapshot that a query has read of the table ({@code INSERT OVERWRITE t SELECT … FROM t}):
   * later commits count as commits during the change.
   *
   * @param snapshotId 0 = before the first load
   * @param manifestSha256 of that snapshot: after a restore of etcd another one may have its id
   * @throws WriteException.LoadConflict when the table keeps no such snapshot any more
   */
  public Transaction startedOn(long snapshotId, String manifestSha256) {
    Optional<Snapshot> read = table.snapshots().stream()
        .filter(one -> one.id() == snapshotId && one.manifestSha256().equals(manifestSha256)).findFirst();
    if (snapshotId != 0 && read.isEmpty()) {
      throw new WriteException.LoadConflict("table " + table.fullName() + ": the change began on snapshot " + snapshotId
          + ", which the table no longer keeps; snapshot " + table.snapshotId()
          + " was committed meanwhile. Nothing was changed; start it again");
    }
    return new Transaction(cluster, table.withSnapshot(read), destination, wait, timer);
  }

  /** The same change, whose files are made for another number of buckets than the table has. */
  Transaction rebucketing(int ofTable) {
    return new Transaction(cluster, table, destination.of(ofTable), wait, timer);
  }

  /** The table as it was when the change began. */
  public ColocatedTable table() {
    return table;
  }

  /** The destination of new files. */
  public Destination destination() {
    return destination;
  }

  /**
   * The recorded commit of this key, or of a later version of its writer.
   *
   * @throws WriteException.InvalidTable when the table's status is invalid
   */
  public Optional<CommitResult> committed(CommitKey key) {
    ColocatedTable newest = newest(wait);
    Optional<CommitResult> found = Commit.recorded(newest, Optional.of(key));
    if (found.isEmpty()) {
      newest.requireStatus();
    }
    return found;
  }

  /**
   * The files of a committed snapshot.
   *
   * @throws NoAgentAnswers when no agent has its manifest
   */
  public List<DataFile> files(String manifestSha256) throws IOException {
    return new Publication(destination).read(manifestSha256).files();
  }

  /**
   * The change that makes an older snapshot's rows the table's again.
   *
   * @throws WriteException.LoadConflict when the table keeps no such snapshot, or its files do not have the table's present layout
   * @throws NoAgentAnswers when no agent has one of the manifests
   */
  public RollBack backTo(long snapshotId) throws IOException {
    Snapshot target = table.history().stream().filter(one -> one.id() == snapshotId).findFirst().orElseThrow(
        () -> new WriteException.LoadConflict("table " + table.fullName() + " keeps no snapshot " + snapshotId
            + " to go back to; it keeps: " + table.history().stream().map(one -> String.valueOf(one.id())).toList()));
    Publication publication = new Publication(destination);
    return RollBack.of(table, target, publication.read(target.manifestSha256()),
        publication.read(table.snapshot().orElseThrow().manifestSha256()));
  }

  /** Files that the table's nodes already hold. */
  public List<SentFile> present(List<DataFile> files) {
    return files.stream().map(file -> new SentFile(file, destination.buckets().get(file.bucket()))).toList();
  }

  private ColocatedTable newest(Duration answerWait) {
    long started = timer.nanos();
    while (true) {
      try {
        return cluster.table(table.namespace(), table.name());
      } catch (NoAnswer lost) {
        if (timer.nanos() - started >= answerWait.toNanos()) {
          throw new WriteException.NotReady(lost.getMessage());
        }
        timer.pause(POLL);
      }
    }
  }

  /**
   * Commits a change for a statement: logs it, and records it in {@link CommitLog}.
   *
   * @param name the table's name in SQL
   * @throws RuntimeException also checked exceptions of {@link #commit(Change, List, Optional)}, whose messages Spark shows to users
   */
  public CommitResult commit(String name, Change change, List<SentFile> sent, Optional<CommitKey> key) {
    CommitResult result = CommitMetric.counting(() -> {
      try {
        return commit(change, sent, key);
      } catch (IOException missing) {
        throw ColocationException.unchecked(missing);
      }
    });
    log(name, change, result);
    CommitLog.add(name, change.label(), result);
    return result;
  }

  private static void log(String name, Change change, CommitResult result) {
    if (result.wasCommittedBefore()) {
      LOG.info("{}: {} was committed before, as snapshot {}", name, change.label(), result.snapshotId());
      return;
    }
    LOG.info("{}: {} committed {} rows in {} files as snapshot {}{}", name, change.label(), result.rows(), result.files(),
        result.snapshotId(), result.changed().rows().map(rows -> "; rows " + rows).orElse(""));
    if (result.replicasMissing() > 0) {
      LOG.warn("{}: {} copies of new files are still to be made by the operator: {}", name, result.replicasMissing(),
          result.substitutes());
    }
  }

  /**
   * Runs a commit of rows that need another definition of the table, and restores the definition when it fails. It stays when the
   * outcome is unknown: if the rows are committed, they need it; if not, the statement is run again.
   */
  public static void orUndo(Runnable commit, Runnable undo) {
    try {
      commit.run();
    } catch (WriteException.CommitUnknown unknown) {
      throw unknown;
    } catch (Exception error) { // Spark's callers, which are in Scala, also throw checked ones
      try {
        undo.run();
      } catch (Exception another) {
        error.addSuppressed(another);
      }
      throw ColocationException.unchecked(error);
    }
  }

  /**
   * Commits on the nodes of the present map. After the compare-and-set nothing can fail the change any more.
   *
   * @param sent what {@link FileSender} returned for each of the change's files
   * @param key identifies repetitions of the change; empty = they are not detected
   * @throws WriteException.LoadConflict when another change overtook this one, which may not go on top of it, or the table's
   *     layout has changed
   * @throws WriteException.CommitUnknown when the API server did not answer whether the commit happened
   * @throws WriteException.InvalidTable when the table's status is invalid, which only {@link Mode#OVERWRITE} may replace
   * @throws WriteException.NotReady when the table, its map or its agents have gone
   * @throws ReplicasMissing when fewer nodes than a majority of a bucket's replicas hold the manifest and the bucket's new files
   * @throws NoAgentAnswers when no agent has the committed manifest, or a new file whose bucket has moved
   */
  public CommitResult commit(Change change, List<SentFile> sent, Optional<CommitKey> key) throws IOException {
    checkAllWereSent(change, sent);
    // The files are written: wait for the API server as long as after the compare-and-set.
    Duration answerWait = wait.compareTo(CompareAndSet.ANSWER_DEADLINE) > 0 ? wait : CompareAndSet.ANSWER_DEADLINE;
    Optional<CommitResult> before = key.isEmpty() ? Optional.empty() : Commit.recorded(newest(answerWait), key);
    if (before.isPresent()) {
      return before.get();
    }
    LoadTarget current = LoadTarget.await(cluster, table.namespace(), table.name(), wait, answerWait, timer);
    refuseOtherBuckets(change, new Buckets(current.buckets().size(), current.ofTable()));
    CompareAndSet.refuseRecreated(table, current.table());
    Publication publication = new Publication(destination(current, destination.access()), destination.agents());
    publication.followMap(destination.buckets(), sent);
    return new Commit(cluster, storage(publication, sent), change, key, table, timer).run(current.table());
  }

  private void refuseOtherBuckets(Change change, Buckets now) {
    Optional<Buckets> made = change.madeForBuckets();
    if (made.isPresent() && (change.rebuckets() ? made.get().ofGroup() != now.ofGroup() : !made.get().equals(now))) {
      throw new WriteException.LoadConflict("table " + table.fullName() + " had " + made.get()
          + " buckets when the load began, now it has " + now + ". Nothing was changed; load again");
    }
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
   * @param snapshotId the table's new snapshot; the recorded one when the change was committed before
   * @param rows added by this commit, like {@code files} and {@code bytes}: 0 when the change was committed before
   * @param bytes of one replica
   * @param replicasMissing copies of new files that the operator has yet to make
   * @param substitutes nodes that hold copies meanwhile
   * @param removed the committed files that the change removed; none for an overwrite of the whole table, which does not read them
   * @param manifestSha256 of the snapshot; empty when the change was committed before and the table no longer lists its snapshot
   * @param changed rows and files that the commit changed; of one that was committed before, what its snapshot records
   * @param wasCommittedBefore whether the table had recorded the change's {@link CommitKey}; then nothing was changed
   */
  public record CommitResult(
      long snapshotId, long rows, long files, long bytes, int replicasMissing, List<Substitute> substitutes,
      List<DataFile> removed, String manifestSha256, ChangeCounts changed, boolean wasCommittedBefore) {}
}
