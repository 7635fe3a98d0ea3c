package dev.colocation.spark.write;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.ChangeCounts;
import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.SchemaEvolution;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.cluster.Timer;
import dev.colocation.spark.cluster.TypeNames;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.io.IOException;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;

/**
 * Commits one change: publishes its manifest on the nodes, then sets {@code status.snapshot} by {@link CompareAndSet}. When
 * another writer was first, it checks by the rules of {@link Change} whether the change may go on top, and tries again.
 *
 * <p>Invariant: a snapshot is committed only after a majority of each bucket's replicas hold the manifest and every new file. What
 * was published without being committed is garbage, which agents collect.
 *
 * <p>With a {@link CommitKey}, the compare-and-set records the key as well. A table that has recorded a key, or a later version of
 * its writer, does not commit it again, so a change is committed once, however often it is repeated.
 */
final class Commit {
  /** Few writers change one table at the same time; more conflicts in a row mean that something is wrong. */
  static final int MAX_ATTEMPTS = 50;

  /** Of snapshots in a message. */
  private static final int MAX_NAMED = 10;

  /** The nodes' storage of manifests. */
  interface Storage {
    StoredManifest read(String sha256) throws IOException;

    /** Puts on the nodes what must be there before the compare-and-set. */
    Publication.Published publish(NextManifest manifest) throws IOException;
  }

  /** A snapshot that is published but not committed. */
  private record Proposal(Snapshot snapshot, Publication.Published published) {}

  private final Cluster cluster;
  private final Storage storage;
  private final Change change;
  private final Optional<CommitKey> key;
  private final ColocatedTable began;
  private final CompareAndSet compareAndSet;

  /**
   * @param key identifies repetitions of the change; empty = they are not detected
   * @param began the table as it was when the change began
   */
  Commit(Cluster cluster, Storage storage, Change change, Optional<CommitKey> key, ColocatedTable began, Timer timer) {
    this.cluster = cluster;
    this.storage = storage;
    this.change = change;
    this.key = key;
    this.began = began;
    compareAndSet = new CompareAndSet(cluster, storage, change, key, began, timer);
  }

  /**
   * Commits the change as the table's next snapshot; the previous one becomes the newest of {@code status.history}.
   *
   * @param newest the table as it was read last
   * @throws WriteException.LoadConflict when another change overtook this one, which may not go on top of it
   * @throws WriteException.CommitUnknown when the API server did not answer whether the commit happened
   * @throws IOException when the nodes do not hold what they must; see {@link Publication}
   */
  CommitResult run(ColocatedTable newest) throws IOException {
    ColocatedTable table = newest;
    Optional<Proposal> proposal = Optional.empty();
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      Optional<CommitResult> repeated = recorded(table, key);
      if (repeated.isPresent()) {
        return repeated.get();
      }
      if (proposal.isEmpty()) {
        refuseOvertaken(table);
      }
      refuseRedefined(table, newest);
      change.checkTable(table);
      if (proposal.isEmpty()) {
        proposal = Optional.of(propose(table));
      }
      Optional<ColocatedTable> overtaking = compareAndSet.send(table, proposal.get().snapshot());
      if (overtaking.isEmpty()) {
        return result(proposal.get());
      }
      if (!isSameBase(table, overtaking.get())) {
        proposal = Optional.empty();
      }
      table = overtaking.get();
    }
    proposal.ifPresent(unsettled -> compareAndSet.requireCertainty(unsettled.snapshot()));
    throw new WriteException.LoadConflict(
        "table " + table.fullName() + " was changed " + MAX_ATTEMPTS + " times in a row; load it again");
  }

  /** The commit that a table has recorded for a key; empty when it has recorded none. */
  static Optional<CommitResult> recorded(ColocatedTable table, Optional<CommitKey> key) {
    return key.flatMap(wanted -> CommitKey.CommitRecord.find(table.commits(), wanted)).map(record -> {
      Optional<Snapshot> snapshot = table.snapshots().stream().filter(one -> one.id() == record.snapshotId()).findFirst();
      return new CommitResult(record.snapshotId(), 0, 0, 0, 0, List.of(), List.of(),
          snapshot.map(Snapshot::manifestSha256).orElse(""), snapshot.map(Snapshot::changed).orElse(ChangeCounts.UNKNOWN), true);
    });
  }

  private CommitResult result(Proposal committed) {
    long rows = change.files().stream().mapToLong(DataFile::rows).sum();
    long bytes = change.files().stream().mapToLong(DataFile::bytes).sum();
    Publication.Published published = committed.published();
    return new CommitResult(
        committed.snapshot().id(), rows, change.files().size(), bytes, published.replicasMissing(), published.substitutes(),
        published.manifest().removed(), committed.snapshot().manifestSha256(), committed.snapshot().changed(), false);
  }

  /** Whether a proposal on top of one table is also right on top of the other: same rows, same definition. */
  private static boolean isSameBase(ColocatedTable one, ColocatedTable other) {
    return hasSameSnapshot(one, other) && one.spec().equals(other.spec());
  }

  static boolean hasSameSnapshot(ColocatedTable one, ColocatedTable other) {
    return one.snapshot().isPresent() == other.snapshot().isPresent()
        && one.snapshot().map(snapshot -> snapshot.isSameAs(other.snapshot().get())).orElse(true);
  }

  private Proposal propose(ColocatedTable table) throws IOException {
    Optional<StoredManifest> parent = change.keepsFiles() ? newestManifest(table) : Optional.empty();
    Publication.Published published = storage.publish(NextManifest.of(table, parent, change));
    ObjectNode snapshot = published.manifest().snapshot().put("operation", change.label())
        .put("committedAt", cluster.askTime().truncatedTo(ChronoUnit.SECONDS).toString());
    return new Proposal(Snapshot.of(snapshot), published);
  }

  private Optional<StoredManifest> newestManifest(ColocatedTable table) throws IOException {
    return table.snapshot().isEmpty() ? Optional.empty()
        : Optional.of(storage.read(table.snapshot().get().manifestSha256()));
  }

  // Rules: other commits since the change began

  private void refuseOvertaken(ColocatedTable table) throws IOException {
    if (hasSameSnapshot(table, began)) {
      return;
    }
    if (!change.goesOnTop()) {
      throw new WriteException.LoadConflict("table " + table.fullName() + ": this load (" + change.label()
          + ") was overtaken: it began on snapshot " + began.snapshotId() + ", and snapshot " + table.snapshotId()
          + " was committed meanwhile. Nothing was changed; load again if it should replace that one");
    }
    if (change.comparesFiles()) {
      try {
        change.checkOvertaking(files(manifestAtBegin()), files(newestManifest(table)));
      } catch (Change.Overtaken error) {
        if (!standsWithoutCompactions(table)) {
          throw NextManifest.overtaken(table, change, error.getMessage() + meanwhile(table));
        }
      }
    }
  }

  /** Whether the change may go on top of all commits since it began but compactions, after which every tablet has the same rows. */
  private boolean standsWithoutCompactions(ColocatedTable table) throws IOException {
    List<Snapshot> since = since(table);
    if (since.stream().noneMatch(Change.Rewrite::made)) {
      return false;
    }
    try {
      Snapshot before = began.snapshot().orElseThrow();
      List<DataFile> files = files(newestManifest(began));
      for (Snapshot next : since) {
        StoredManifest manifest = storage.read(next.manifestSha256());
        if (!manifest.parent().equals(before.manifestSha256())) {
          return false;
        }
        if (!Change.Rewrite.made(next)) {
          change.checkOvertaking(files, manifest.files());
        }
        before = next;
        files = manifest.files();
      }
      return true;
    } catch (Change.Overtaken | WriteException.NoAgentAnswers conflict) {
      return false;
    }
  }

  /** The snapshots since the change began, in their order; none when the table no longer keeps the one on which it began. */
  private List<Snapshot> since(ColocatedTable table) {
    List<Snapshot> kept = table.snapshots();
    List<Snapshot> later = new ArrayList<>(kept.stream().takeWhile(one -> began.snapshot().filter(one::isSameAs).isEmpty()).toList());
    Collections.reverse(later);
    return later.size() == kept.size() ? List.of() : later;
  }

  private String meanwhile(ColocatedTable table) {
    List<String> later = table.snapshots().stream().filter(one -> one.id() > began.snapshotId()).sorted(
        Comparator.comparingLong(Snapshot::id)).map(one -> one.id() + " (" + one.operation() + ")").toList();
    return later.isEmpty() ? "" : ". Committed since snapshot " + began.snapshotId() + ", on which it began: "
        + String.join(", ", later.subList(0, Math.min(later.size(), MAX_NAMED)));
  }

  private Optional<StoredManifest> manifestAtBegin() {
    try {
      return newestManifest(began);
    } catch (IOException | WriteException.NoAgentAnswers error) {
      throw new WriteException.LoadConflict("table " + began.fullName() + ": " + change.label()
          + " was overtaken: other changes were committed meanwhile, and snapshot " + began.snapshotId()
          + ", on which it began, can no longer be read: " + error.getMessage() + ". Nothing was changed; start it again");
    }
  }

  private static List<DataFile> files(Optional<StoredManifest> manifest) {
    return manifest.map(StoredManifest::files).orElse(List.of());
  }

  // Rules: other definitions since the change began

  /**
   * Refuses a table whose definition no longer fits what was written. New files are laid out as the table was when the change
   * began; all files are on nodes of the group that the table was in when they were published.
   */
  private void refuseRedefined(ColocatedTable table, ColocatedTable published) {
    List<String> problems = new ArrayList<>();
    addDifference(problems, "group", published.group(), table.group());
    if (!change.files().isEmpty()) {
      addLayoutDifferences(problems, began.layout(), table.layout());
    }
    if (!problems.isEmpty()) {
      throw new WriteException.LoadConflict("table " + table.fullName() + " was changed while this " + change.label()
          + " ran: " + String.join("; ", problems) + ". Nothing was changed; start it again");
    }
  }

  private static void addLayoutDifferences(List<String> problems, TableLayout then, TableLayout now) {
    addDifference(problems, "bucketedBy", then.bucketedBy(), now.bucketedBy());
    addDifference(problems, "partitionedBy", then.partitionedBy(), now.partitionedBy());
    addDifference(problems, "sortedBy", then.sortedBy(), now.sortedBy());
    addDifference(problems, "CHAR columns", TypeNames.charLengths(then.columns()), TypeNames.charLengths(now.columns()));
    String columns = SchemaEvolution.refusedChange(then.columns(), now.columns());
    if (!columns.isEmpty()) {
      problems.add(columns);
    }
  }

  private static void addDifference(List<String> problems, String what, Object then, Object now) {
    if (!then.equals(now)) {
      problems.add(what + " was " + then + " and is " + now);
    }
  }
}
