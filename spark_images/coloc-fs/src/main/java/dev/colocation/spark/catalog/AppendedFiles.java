package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.StreamOffset.Position;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.write.Change;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Finds the files that a table's commits have appended, commit by commit. Pure except for reading manifests, which never change.
 *
 * <p>Invariant: two positions always have the same files between them, whenever they are asked for; a table that no longer has
 * them is refused. All files of a batch are in the manifest of its last snapshot: it ends before a commit that removes files.
 */
final class AppendedFiles {
  /** Lengths of a snapshot's files by their paths. */
  interface Manifests {
    SortedMap<String, Long> files(Snapshot snapshot);
  }

  /** How many of a commit's files a batch takes. */
  interface Share {
    Share ALL = (snapshot, behind, files) -> files.size();

    /**
     * @param behind how many of the commit's files are already read
     * @param files the remaining ones
     */
    int of(long snapshot, long behind, List<Map.Entry<String, Long>> files);
  }

  /** Files that are read together, up to a position. */
  record Batch(Position end, List<String> paths, long bytes) {}

  private final String table;
  private final List<Snapshot> kept;
  private final Manifests manifests;
  private final boolean skipsChanges;

  /**
   * The files of a table.
   *
   * @param table its name in SQL
   * @param kept its snapshots, the oldest first
   * @param skipsChanges whether commits that remove rows are skipped, with the rows that they add
   */
  AppendedFiles(String table, List<Snapshot> kept, Manifests manifests, boolean skipsChanges) {
    this.table = table;
    this.kept = kept;
    this.manifests = manifests;
    this.skipsChanges = skipsChanges;
  }

  /**
   * The next files.
   *
   * @throws ColocationException (unchecked) when the table no longer keeps the commits in question, or when a commit is no append
   */
  Batch after(Position begin, Share share) {
    Taken taken = new Taken(begin);
    if (begin.files() != StreamOffset.ALL) {
      Snapshot snapshot = snapshot(begin);
      SortedMap<String, Long> files = begin.isWhole() ? manifests.files(snapshot) : appendedBy(snapshot, begin.snapshot() - 1);
      if (!taken.take(snapshot, begin, files, share)) {
        return taken.batch();
      }
    }
    Optional<Snapshot> next = next(taken.end);
    while (next.isPresent()) {
      Snapshot snapshot = next.get();
      Optional<SortedMap<String, Long>> appended =
          Change.areRewritten(snapshot) ? Optional.empty() : appended(before(taken.end), manifests.files(snapshot));
      if (appended.isEmpty()) {
        if (!taken.paths.isEmpty()) {
          return taken.batch();
        }
        requireSkipped(snapshot);
      }
      Position start = new Position(snapshot.id(), snapshot.manifestSha256(), 0, false);
      if (!taken.take(snapshot, start, appended.orElseGet(TreeMap::new), share)) {
        return taken.batch();
      }
      next = next(taken.end);
    }
    return taken.batch();
  }

  /** The files that a commit added; empty when it removed any of those before it, so that it is no append. */
  static Optional<SortedMap<String, Long>> appended(SortedMap<String, Long> before, SortedMap<String, Long> after) {
    if (!after.keySet().containsAll(before.keySet())) {
      return Optional.empty();
    }
    SortedMap<String, Long> added = new TreeMap<>(after);
    added.keySet().removeAll(before.keySet());
    return Optional.of(added);
  }

  /** The files between two positions. */
  Batch between(Position begin, Position end) {
    if (end.snapshot() > 0) {
      snapshot(end);
    }
    List<Snapshot> until = kept.stream().filter(one -> one.id() <= end.snapshot()).toList();
    Batch found = new AppendedFiles(table, until, manifests, skipsChanges).after(begin, (snapshot, behind, files) ->
        snapshot < end.snapshot() || end.files() == StreamOffset.ALL ? files.size() : (int) (end.files() - behind));
    if (!found.end().equals(end)) {
      throw new ColocationException("table " + table + " has other commits than when the micro-batch was planned: it ended at "
          + end + ", and ends at " + found.end() + " now. Begin with a new checkpoint").unchecked();
    }
    return found;
  }

  /** The files that a kept commit appended. */
  private SortedMap<String, Long> appendedBy(Snapshot snapshot, long predecessor) {
    SortedMap<String, Long> files = new TreeMap<>(manifests.files(snapshot));
    if (predecessor > 0) {
      files.keySet().removeAll(manifests.files(kept.stream().filter(one -> one.id() == predecessor).findFirst()
          .orElseThrow(() -> notKept(predecessor))).keySet());
    }
    return files;
  }

  private SortedMap<String, Long> before(Position position) {
    return position.snapshot() == 0 ? new TreeMap<>() : manifests.files(snapshot(position));
  }

  /** The snapshot of a position. */
  private Snapshot snapshot(Position position) {
    Snapshot found = kept.stream().filter(one -> one.id() == position.snapshot()).findFirst()
        .orElseThrow(() -> notKept(position.snapshot()));
    if (!found.manifestSha256().equals(position.manifest())) {
      throw new ColocationException("table " + table + " has another snapshot " + found.id() + " than the one that the stream has "
          + "read, as after a restore of etcd. Begin with a new checkpoint").unchecked();
    }
    return found;
  }

  private Optional<Snapshot> next(Position position) {
    if (position.snapshot() > 0) {
      snapshot(position);
    }
    Optional<Snapshot> next = kept.stream().filter(one -> one.id() > position.snapshot()).findFirst();
    next.filter(found -> found.id() != position.snapshot() + 1).ifPresent(found -> {
      throw notKept(position.snapshot() + 1);
    });
    return next;
  }

  private void requireSkipped(Snapshot snapshot) {
    if (!skipsChanges && !Change.areRewritten(snapshot)) {
      throw new ColocationException("NotAnAppend: snapshot " + snapshot.id() + " of table " + table + " ("
          + (snapshot.operation().isEmpty() ? "by an unknown operation" : snapshot.operation())
          + ") removed rows that were there before; streams give appended rows only. Option " + StreamOptions.SKIP_CHANGES
          + "=true passes over such commits, and over the rows that they add; a new checkpoint reads the table from the beginning")
          .unchecked();
    }
  }

  private RuntimeException notKept(long id) {
    String ids = kept.isEmpty() ? "none" : kept.get(0).id() + " to " + kept.get(kept.size() - 1).id();
    return new ColocationException("SnapshotExpired: table " + table + " no longer keeps snapshot " + id + ", by which the "
        + "stream finds the rows that come next; it keeps: " + ids
        + ". Begin with a new checkpoint, if need be with " + StreamOptions.VERSION + "; to keep "
        + "snapshots for as long as the stream may stand still, ALTER TABLE … SET TBLPROPERTIES ('retention_snapshots' = …, "
        + "'retention_seconds' = …)").unchecked();
  }

  /** The files taken so far. */
  private static final class Taken {
    private final List<String> paths = new ArrayList<>();
    private long bytes;
    private Position end;

    Taken(Position begin) {
      end = begin;
    }

    /** Takes files of a commit; returns whether all of them were taken. */
    boolean take(Snapshot snapshot, Position from, SortedMap<String, Long> files, Share share) {
      List<Map.Entry<String, Long>> rest = List.copyOf(files.entrySet()).subList((int) from.files(), files.size());
      int count = share.of(snapshot.id(), from.files(), rest);
      for (Map.Entry<String, Long> file : rest.subList(0, count)) {
        paths.add(file.getKey());
        bytes += file.getValue();
      }
      if (count == rest.size()) {
        end = Position.after(snapshot);
      } else if (count > 0) {
        end = new Position(snapshot.id(), snapshot.manifestSha256(), from.files() + count, from.isWhole());
      }
      return count == rest.size();
    }

    Batch batch() {
      return new Batch(end, List.copyOf(paths), bytes);
    }
  }
}
