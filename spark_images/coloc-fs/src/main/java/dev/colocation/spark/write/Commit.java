package dev.colocation.spark.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.CharColumns;
import dev.colocation.spark.cluster.Cluster.NoAnswer;
import dev.colocation.spark.cluster.Cluster.WriteConflict;
import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.CommitKey.CommitRecord;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.RetainedHistory;
import dev.colocation.spark.cluster.SchemaEvolution;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.cluster.TableState;
import dev.colocation.spark.cluster.Timer;
import dev.colocation.spark.cluster.WriteException.NoAgentAnswers;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import dev.colocation.spark.write.Change.Overtaken;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.io.IOException;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The commit of a change: manifest to the agents, verified there, then a compare-and-set of {@code status.snapshot}.
 *
 * <p>Invariant: a snapshot is published only after as many nodes as a majority of a bucket's replicas hold each new file and the
 * manifest. All that is done before is garbage if the compare-and-set does not happen.
 *
 * <p>An answer that is lost (a server error, a time-out, a cut connection) says neither that the compare-and-set happened nor
 * that it did not. The table is then read again: its status decides, never a guess. While it still holds the snapshot of
 * before, the same compare-and-set is sent again; of any number of them one at most can happen.
 *
 * <p>With a {@link CommitKey} the same compare-and-set records the key, and a table that records it, or a later version of its
 * writer, takes nothing more by it: so a change is committed once, however often and by whomever it is repeated.
 */
final class Commit {
  private static final Logger LOG = LoggerFactory.getLogger(Commit.class);

  /** Writers that change a table's object at once are few; more conflicts in a row mean that something is wrong. */
  static final int MAX_ATTEMPTS = 50;

  /** Where manifests lie. */
  interface Storage {
    StoredManifest read(String sha256) throws IOException;

    /** What must hold before the compare-and-set. */
    Publication.Published publish(NextManifest manifest) throws IOException;
  }

  /** What is published, and waits for its compare-and-set. */
  private record Prepared(Snapshot snapshot, Publication.Published there) {}

  private final Cluster cluster;
  private final Storage storage;
  private final Change change;
  private final Optional<CommitKey> key;
  private final TableState began;
  private final Timer timer;
  private final Doubt doubt;

  /**
   * @param began the table as it was when the change began
   * @param key by which a repetition is known; empty = none
   */
  Commit(Cluster cluster, Storage storage, Change change, Optional<CommitKey> key, TableState began, Timer timer) {
    this.cluster = cluster;
    this.storage = storage;
    this.change = change;
    this.key = key;
    this.began = began;
    this.timer = timer;
    doubt = new Doubt(timer);
  }

  /**
   * Publishes the change as the table's next snapshot; the one before becomes the newest of {@code status.history}. A change that
   * another one overtook goes on top of that one where it may, else it has lost.
   *
   * @param newest the table as it was read last
   * @throws IOException when the nodes do not hold what they must; see {@link Publication}
   */
  CommitResult run(TableState newest) throws IOException {
    TableState table = newest;
    Prepared prepared = null;
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      Optional<CommitResult> before = recorded(table, key);
      if (before.isPresent()) {
        return before.get();
      }
      if (prepared == null) {
        refuseOvertaken(table);
      }
      refuseChanged(table, newest);
      change.checkTable(table);
      if (prepared == null) {
        prepared = prepare(table);
      }
      Optional<TableState> after = tryCommit(table, prepared.snapshot());
      if (after.isEmpty() || isListed(after.get(), prepared.snapshot())) {
        return result(prepared);
      }
      TableState current = after.get();
      if (doubt.exists() && !current.statusError().isEmpty()) {
        throw unknown(prepared.snapshot(), current.statusError(), null);
      }
      if (!hasSameSnapshot(current, table)) {
        if (recorded(current, key).isEmpty() && doubt.exists() && wasFollowed(current, prepared)) {
          return result(prepared);
        }
        prepared = null;
      } else if (!current.spec().equals(table.spec())) {
        prepared = null; // its files may be of the definition of before
      }
      table = current;
    }
    if (doubt.exists() && prepared != null) {
      throw unknown(prepared.snapshot(), doubt.cause().getMessage(), doubt.cause());
    }
    throw new WriteException.LoadConflict(
        "table " + table.fullName() + " was changed " + MAX_ATTEMPTS + " times in a row; load it again");
  }

  /** What a table says of a key; empty when it says nothing. */
  static Optional<CommitResult> recorded(TableState table, Optional<CommitKey> key) {
    return key.flatMap(wanted -> CommitRecord.find(table.commits(), wanted)).map(record -> {
      String manifest = table.listed().stream().filter(one -> one.id() == record.snapshotId()).findFirst()
          .map(Snapshot::manifestSha256).orElse("");
      return new CommitResult(record.snapshotId(), 0, 0, 0, 0, List.of(), List.of(), manifest, true);
    });
  }

  private CommitResult result(Prepared prepared) {
    long rows = change.files().stream().mapToLong(DataFile::rows).sum();
    long bytes = change.files().stream().mapToLong(DataFile::bytes).sum();
    return new CommitResult(
        prepared.snapshot().id(), rows, change.files().size(), bytes, prepared.there().replicasMissing(),
        prepared.there().substitutes(), prepared.there().manifest().removed(), prepared.snapshot().manifestSha256(), false);
  }

  // What was committed since the change began

  private void refuseOvertaken(TableState table) throws IOException {
    if (hasSameSnapshot(table, began)) {
      return;
    }
    if (!change.goesOnTop()) {
      throw new WriteException.LoadConflict("table " + table.fullName() + ": this load (" + change.label()
          + ") was overtaken: it began on snapshot " + began.snapshotId() + ", and snapshot " + table.snapshotId()
          + " was committed meanwhile. Nothing was changed; load again if it should replace that one");
    }
    if (change instanceof NewFiles load && load.mode() != Mode.APPEND) {
      try {
        change.checkOvertaking(filesOf(beganOn()), filesOf(parent(table)));
      } catch (Overtaken error) {
        throw NextManifest.lost(table, change, error);
      }
    }
  }

  private Optional<StoredManifest> beganOn() {
    try {
      return parent(began);
    } catch (IOException | NoAgentAnswers error) {
      throw new WriteException.LoadConflict("table " + began.fullName() + ": " + change.label()
          + " was overtaken: other changes were committed meanwhile, and snapshot " + began.snapshotId()
          + ", on which it began, can no longer be read: " + error.getMessage() + ". Nothing was changed; start it again");
    }
  }

  private Optional<StoredManifest> parent(TableState table) throws IOException {
    return table.snapshot().isEmpty() ? Optional.empty()
        : Optional.of(storage.read(table.snapshot().get().manifestSha256()));
  }

  private static List<DataFile> filesOf(Optional<StoredManifest> manifest) {
    return manifest.map(StoredManifest::files).orElse(List.of());
  }

  // Publication and compare-and-set

  private Prepared prepare(TableState table) throws IOException {
    Optional<StoredManifest> parent = change.keepsFiles() ? parent(table) : Optional.empty();
    NextManifest manifest = NextManifest.of(table, parent, change);
    Publication.Published there = storage.publish(manifest);
    ObjectNode snapshot = there.manifest().snapshot().put("operation", change.label())
        .put("committedAt", cluster.askTime().truncatedTo(ChronoUnit.SECONDS).toString());
    return new Prepared(Snapshot.of(snapshot), there);
  }

  /**
   * The files are laid out as the table was when the change began; readers trust what the table says when it is committed. All
   * lies on the nodes of the group that it was in before the publication; the operator keeps what its group's nodes hold.
   */
  private void refuseChanged(TableState table, TableState published) {
    List<String> problems = new ArrayList<>();
    differ(problems, "group", published.group(), table.group());
    if (!change.files().isEmpty()) {
      addChangesOfLayout(problems, table);
    }
    if (!problems.isEmpty()) {
      throw new WriteException.LoadConflict("table " + table.fullName() + " was changed while this " + change.label()
          + " ran: " + String.join("; ", problems) + ". Nothing was changed; start it again");
    }
  }

  private void addChangesOfLayout(List<String> problems, TableState table) {
    differ(problems, "bucketedBy", began.bucketedBy(), table.bucketedBy());
    differ(problems, "partitionedBy", began.partitionedBy(), table.partitionedBy());
    differ(problems, "sortedBy", began.sortedBy(), table.sortedBy());
    differ(problems, "CHAR columns", CharColumns.lengths(began.columns()), CharColumns.lengths(table.columns()));
    String columns = SchemaEvolution.refusedChange(began.columns(), table.columns());
    if (!columns.isEmpty()) {
      problems.add(columns);
    }
  }

  private static void differ(List<String> problems, String what, Object began, Object now) {
    if (!began.equals(now)) {
      problems.add(what + " was " + began + " and is " + now);
    }
  }

  /** Empty when it is done; else the table as it is now. */
  private Optional<TableState> tryCommit(TableState table, Snapshot snapshot) {
    List<Snapshot> history = RetainedHistory.after(table, snapshot.committedAt(), cluster.now());
    Optional<List<CommitRecord>> commits = commits(table, snapshot);
    try {
      JsonNode written = cluster.commit(table, snapshot.json(), history, commits);
      warnIfUnrecorded(written);
      return Optional.empty();
    } catch (WriteConflict conflict) {
      // Which may be with an earlier attempt of our own.
    } catch (NoAnswer lost) {
      doubt.add(lost);
      waitOrGiveUp(snapshot, lost);
    }
    return Optional.of(readAgain(snapshot));
  }

  /** All of {@code status.commits} where it changes: by a key, and where it was spoiled. */
  private Optional<List<CommitRecord>> commits(TableState table, Snapshot snapshot) {
    if (key.isPresent()) {
      return Optional.of(CommitRecord.with(CommitRecord.of(key.get(), snapshot.id()), table.commits()));
    }
    return table.statusError().isEmpty() ? Optional.empty() : Optional.of(table.commits());
  }

  private void warnIfUnrecorded(JsonNode written) {
    if (key.isEmpty()) {
      return;
    }
    for (JsonNode record : written.path("status").path("commits")) {
      if (record.path("writer").asText().equals(key.get().writer())) {
        return;
      }
    }
    LOG.warn("table {} did not keep the commit's key ({}): a repetition would be committed again. The cluster's ColocatedTable "
        + "definition is older than this library; apply the CRDs of its release (helm does not)", began.fullName(), key.get());
  }

  // Lost answers

  private TableState readAgain(Snapshot snapshot) {
    while (true) {
      try {
        TableState current = cluster.table(began.namespace(), began.name());
        refuseAnew(began, current);
        return current;
      } catch (NoAnswer lost) {
        // Also after a conflict, which alone does not say that no earlier attempt has happened.
        doubt.add(lost);
        waitOrGiveUp(snapshot, lost);
      } catch (WriteException.LoadConflict | Cluster.NotThere error) {
        throw error;
      } catch (WriteException error) {
        if (!doubt.exists()) {
          throw error;
        }
        throw unknown(snapshot, error.getMessage(), error);
      }
    }
  }

  /** Files of the old table lie in the old table's folder. */
  static void refuseAnew(TableState began, TableState current) {
    if (!current.uid().equals(began.uid())) {
      throw new WriteException.LoadConflict(
          "table " + current.fullName() + " was dropped and recreated during the load; load it again");
    }
  }

  private void waitOrGiveUp(Snapshot snapshot, NoAnswer lost) {
    boolean mayAsk;
    try {
      mayAsk = doubt.waitForAnother();
    } catch (WriteException cancelled) {
      throw unknown(snapshot, cancelled.getMessage(), cancelled);
    }
    if (!mayAsk) {
      throw unknown(snapshot, lost.getMessage(), lost);
    }
  }

  private WriteException.CommitUnknown unknown(Snapshot snapshot, String last, Throwable cause) {
    String cure = key.isPresent()
        ? "Start it again with the same key: it is committed once, whichever is true"
        : "Look at status.snapshot and status.history (kubectl get colocatedtable " + began.name() + " -n "
            + began.namespace() + " -o yaml): if " + snapshot.manifest()
            + " is there, the change is done, do not repeat it; if not, start it again";
    return new WriteException.CommitUnknown("table " + began.fullName() + ": it is not known whether snapshot "
        + snapshot.id() + " (" + snapshot.manifest() + ") was committed: " + doubt.cause().getMessage() + "; asked for "
        + Doubt.ANSWER_DEADLINE.toSeconds() + " s at most, the API server said: " + last + ". " + cure, cause);
  }

  /** Whether the snapshot is there after all. Others may have gone on top of it since, so older snapshots count too. */
  private static boolean isListed(TableState table, Snapshot snapshot) {
    return table.listed().stream().anyMatch(snapshot::isSameAs);
  }

  private static boolean hasSameSnapshot(TableState one, TableState other) {
    return one.snapshot().isPresent() == other.snapshot().isPresent()
        && one.snapshot().map(snapshot -> snapshot.isSameAs(other.snapshot().get())).orElse(true);
  }

  /**
   * Whether a commit whose answer was lost happened, although the table keeps it neither as present nor as older.
   *
   * @throws WriteException.CommitUnknown when later commits have hidden it
   */
  private boolean wasFollowed(TableState current, Prepared ours) {
    long number = ours.snapshot().id();
    boolean isListed = current.listed().stream().anyMatch(one -> one.id() == number);
    if (current.snapshotId() < number || isListed) {
      return false;
    }
    StoredManifest manifest;
    try {
      manifest = parent(current).orElseThrow();
    } catch (IOException | NoAgentAnswers error) {
      throw unknown(ours.snapshot(), error.getMessage(), error);
    }
    if (manifest.snapshotId() == number + 1) {
      return manifest.parent().equals(ours.snapshot().manifestSha256());
    }
    if (manifest.files().stream().anyMatch(change.files()::contains)) {
      return true;
    }
    throw unknown(ours.snapshot(), "snapshot " + current.snapshotId() + " is there", null);
  }

  /** Answers that were lost since a commit began: whether there are any, and how long the API server was asked. */
  static final class Doubt {
    /** How long the API server is asked whether a commit whose answer was lost has happened. */
    static final Duration ANSWER_DEADLINE = Duration.ofSeconds(120);

    private static final Duration FIRST_WAIT = Duration.ofMillis(500);
    private static final Duration LONGEST_WAIT = Duration.ofSeconds(5);

    private final Timer timer;
    private NoAnswer cause;
    private long since;
    private Duration wait = FIRST_WAIT;

    Doubt(Timer timer) {
      this.timer = timer;
    }

    /** Whether an answer was lost. */
    boolean exists() {
      return cause != null;
    }

    /** Why the first one was lost. */
    NoAnswer cause() {
      return cause;
    }

    /** Another answer was lost. */
    void add(NoAnswer lost) {
      if (cause == null) {
        cause = lost;
        since = timer.nanos();
      }
    }

    /** Waits before the next question, each time twice as long; false when the deadline has passed. */
    boolean waitForAnother() {
      if (timer.nanos() - since >= ANSWER_DEADLINE.toNanos()) {
        return false;
      }
      timer.sleep(wait);
      wait = wait.multipliedBy(2).compareTo(LONGEST_WAIT) < 0 ? wait.multipliedBy(2) : LONGEST_WAIT;
      return true;
    }
  }
}
