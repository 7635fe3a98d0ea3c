package dev.colocation.spark.write;

import com.fasterxml.jackson.databind.JsonNode;
import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.CommitKey.CommitRecord;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.cluster.Timer;
import dev.colocation.spark.cluster.WriteException;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sets a table's {@code status.snapshot} if the table is unchanged since it was read, and finds out whether that happened.
 *
 * <p>A lost answer (a server error, a time-out, a cut connection) leaves open whether the compare-and-set happened. The table is
 * then read again, and its status decides. While it still has the previous snapshot, the same compare-and-set is sent again; at
 * most one of them can succeed, since each carries the table's {@code resourceVersion}.
 */
final class CompareAndSet {
  private static final Logger LOG = LoggerFactory.getLogger(CompareAndSet.class);

  /** How long the API server is asked about a commit whose answer was lost. */
  static final Duration ANSWER_DEADLINE = Duration.ofSeconds(120);

  private static final Duration FIRST_WAIT = Duration.ofMillis(500);
  private static final Duration LONGEST_WAIT = Duration.ofSeconds(5);

  private final Cluster cluster;
  private final Commit.Storage storage;
  private final Change change;
  private final Optional<CommitKey> key;
  private final ColocatedTable began;
  private final Timer timer;
  /** The first answer that was lost; empty = none was, so nothing can have happened unseen. */
  private Optional<Cluster.NoAnswer> lost = Optional.empty();
  private long lostAtNanos;
  private Duration wait = FIRST_WAIT;

  CompareAndSet(
      Cluster cluster, Commit.Storage storage, Change change, Optional<CommitKey> key, ColocatedTable began, Timer timer) {
    this.cluster = cluster;
    this.storage = storage;
    this.change = change;
    this.key = key;
    this.began = began;
    this.timer = timer;
  }

  /**
   * Sends the compare-and-set.
   *
   * @param table the table that the snapshot goes on top of
   * @return empty when the snapshot is committed; else the table as it is now
   * @throws WriteException.CommitUnknown when it cannot be found out whether the snapshot is committed
   */
  Optional<ColocatedTable> send(ColocatedTable table, Snapshot snapshot) {
    List<Snapshot> history = table.historyAfter(snapshot.committedAt(), cluster.now());
    try {
      warnIfUnrecorded(cluster.commit(table, snapshot.json(), history, commits(table, snapshot)));
      return Optional.empty();
    } catch (Cluster.WriteConflict conflict) {
      // The conflict may be with an earlier attempt of this commit.
    } catch (Cluster.NoAnswer error) {
      note(error);
      waitOrGiveUp(snapshot, error);
    }
    ColocatedTable current = readAgain(snapshot);
    return isCommitted(table, current, snapshot) ? Optional.empty() : Optional.of(current);
  }

  /** All of {@code status.commits}, when the commit changes it: to record a key, or to replace invalid records; else empty. */
  private Optional<List<CommitRecord>> commits(ColocatedTable table, Snapshot snapshot) {
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
    LOG.warn("table {} did not keep the commit's key ({}, version {}): a repetition would be committed again. The cluster's "
        + "ColocatedTable definition is older than this library; apply the CRDs of its release (helm does not)",
        began.fullName(), key.get().writer(), key.get().version());
  }

  // Whether the snapshot is committed after all

  private boolean isCommitted(ColocatedTable before, ColocatedTable current, Snapshot snapshot) {
    if (current.snapshots().stream().anyMatch(snapshot::isSameAs)) {
      return true;
    }
    if (lost.isEmpty()) {
      return false;
    }
    if (!current.statusError().isEmpty()) {
      throw unknown(snapshot, current.statusError(), null);
    }
    return !Commit.hasSameSnapshot(current, before) && Commit.recorded(current, key).isEmpty() && wasFollowed(current, snapshot);
  }

  /**
   * Whether later commits went on top of the snapshot, although the table lists it neither as newest nor in its history.
   *
   * @throws WriteException.CommitUnknown when the later commits hide it
   */
  private boolean wasFollowed(ColocatedTable current, Snapshot snapshot) {
    boolean isIdTaken = current.snapshots().stream().anyMatch(one -> one.id() == snapshot.id());
    if (current.snapshotId() < snapshot.id() || isIdTaken) {
      return false;
    }
    StoredManifest manifest;
    try {
      manifest = storage.read(current.snapshot().orElseThrow().manifestSha256());
    } catch (IOException | WriteException.NoAgentAnswers error) {
      throw unknown(snapshot, error.getMessage(), error);
    }
    if (manifest.snapshotId() == snapshot.id() + 1) {
      return manifest.parent().equals(snapshot.manifestSha256());
    }
    if (manifest.files().stream().anyMatch(change.files()::contains)) {
      return true;
    }
    throw unknown(snapshot, "snapshot " + current.snapshotId() + " is there", null);
  }

  /** Refuses to go on when an answer was lost and it is still unknown whether the snapshot is committed. */
  void requireCertainty(Snapshot snapshot) {
    if (lost.isPresent()) {
      throw unknown(snapshot, lost.get().getMessage(), lost.get());
    }
  }

  // Lost answers

  private ColocatedTable readAgain(Snapshot snapshot) {
    while (true) {
      try {
        ColocatedTable current = cluster.table(began.namespace(), began.name());
        refuseRecreated(began, current);
        return current;
      } catch (Cluster.NoAnswer error) {
        // Also after a conflict, which alone does not prove that no earlier attempt has succeeded.
        note(error);
        waitOrGiveUp(snapshot, error);
      } catch (WriteException.LoadConflict | Cluster.NotThere error) {
        throw error;
      } catch (WriteException error) {
        if (lost.isEmpty()) {
          throw error;
        }
        throw unknown(snapshot, error.getMessage(), error);
      }
    }
  }

  /** Refuses a table of the same name that was created later: files of the old one are in the old one's folder. */
  static void refuseRecreated(ColocatedTable began, ColocatedTable current) {
    if (!current.uid().equals(began.uid())) {
      throw new WriteException.LoadConflict(
          "table " + current.fullName() + " was dropped and recreated during the load; load it again");
    }
  }

  private void note(Cluster.NoAnswer error) {
    if (lost.isEmpty()) {
      lost = Optional.of(error);
      lostAtNanos = timer.nanos();
    }
  }

  /** Waits before the next request, each time twice as long. */
  private void waitOrGiveUp(Snapshot snapshot, Cluster.NoAnswer error) {
    if (timer.nanos() - lostAtNanos >= ANSWER_DEADLINE.toNanos()) {
      throw unknown(snapshot, error.getMessage(), error);
    }
    if (!timer.sleep(wait)) {
      throw unknown(snapshot, "cancelled", error);
    }
    wait = wait.multipliedBy(2).compareTo(LONGEST_WAIT) < 0 ? wait.multipliedBy(2) : LONGEST_WAIT;
  }

  private WriteException.CommitUnknown unknown(Snapshot snapshot, String last, Throwable cause) {
    String cure = key.isPresent()
        ? "Start it again with the same key: it is committed once in either case"
        : "Look at status.snapshot and status.history (kubectl get colocatedtable " + began.name() + " -n "
            + began.namespace() + " -o yaml): if " + snapshot.manifest()
            + " is there, the change is done, do not repeat it; if not, start it again";
    return new WriteException.CommitUnknown("table " + began.fullName() + ": it is not known whether snapshot "
        + snapshot.id() + " (" + snapshot.manifest() + ") was committed: " + lost.orElseThrow().getMessage() + "; asked for "
        + ANSWER_DEADLINE.toSeconds() + " s at most, the API server's last answer: " + last + ". " + cure, cause);
  }
}
