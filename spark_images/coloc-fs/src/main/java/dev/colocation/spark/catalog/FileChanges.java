package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.AppendedFiles.Manifests;
import dev.colocation.spark.catalog.ChangesRequest.Deduplication;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.write.Change;
import dev.colocation.spark.write.RowChange;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Finds the files by which commits changed rows. Pure except for reading manifests, which never change.
 *
 * <p>A row is in the bucket of its key and in the partition of its values. So rows of a removed file that are still there are in
 * added files of its tablet, unless no file stayed: then the table may have another layout, and all files are compared.
 */
final class FileChanges {
  static final String INSERT = "insert";
  static final String DELETE = "delete";
  static final String BEFORE_UPDATE = "update_preimage";
  static final String AFTER_UPDATE = "update_postimage";

  /**
   * Files that a commit added or removed.
   *
   * @param holder the snapshot by which the files are read
   * @param change what became of their rows
   * @param isCompared whether only those of their rows count that the commit's other compared files lack
   */
  record Part(Snapshot commit, Snapshot holder, String change, boolean isCompared, SortedMap<String, Long> files) {}

  /** @param layoutsMayDiffer whether a commit replaced all files, so that the definition may have changed with it */
  record Found(List<Part> parts, boolean layoutsMayDiffer) {}

  private record Key(Snapshot commit, Snapshot holder, String change, boolean isCompared) {}

  private final Manifests manifests;
  private final Deduplication deduplication;
  private final boolean computesUpdates;
  private final Map<Key, SortedMap<String, Long>> parts = new LinkedHashMap<>();
  private boolean layoutsMayDiffer;

  private FileChanges(Manifests manifests, Deduplication deduplication, boolean computesUpdates) {
    this.manifests = manifests;
    this.deduplication = deduplication;
    this.computesUpdates = computesUpdates;
  }

  /**
   * The files that commits changed.
   *
   * @param commits one after the other, without a gap
   * @param predecessor the snapshot before the first of them; empty = there was none
   */
  static Found of(Optional<Snapshot> predecessor, List<Snapshot> commits, Manifests manifests, ChangesRequest request) {
    FileChanges found = new FileChanges(manifests, request.deduplication(), request.computesUpdates());
    if (request.deduplication() == Deduplication.NET_CHANGES) {
      found.addNet(predecessor, commits);
    } else {
      found.addEach(predecessor, commits);
    }
    List<Part> parts = new ArrayList<>();
    found.parts.forEach((key, files) -> parts.add(new Part(key.commit(), key.holder(), key.change(), key.isCompared(), files)));
    return new Found(List.copyOf(parts), found.layoutsMayDiffer);
  }

  private void addEach(Optional<Snapshot> predecessor, List<Snapshot> commits) {
    Optional<Snapshot> holder = predecessor;
    SortedMap<String, Long> before = holder.map(manifests::files).orElseGet(TreeMap::new);
    for (Snapshot commit : commits) {
      SortedMap<String, Long> after = manifests.files(commit);
      if (!Change.areRewritten(commit)) {
        SortedMap<String, Long> removed = without(before, after);
        SortedMap<String, Long> added = without(after, before);
        boolean isUpdate = computesUpdates && commit.operation().equals(RowChange.Kind.UPDATE.label());
        // Keys whose rows are deleted and inserted may be in several partitions: all of the commit's files are needed.
        boolean isWhole = computesUpdates && !isUpdate && !removed.isEmpty() && !added.isEmpty();
        Set<String> compared = compared(before, removed, added);
        for (Map.Entry<String, Long> file : removed.entrySet()) {
          boolean isCompared = isWhole || compared.contains(tablet(file.getKey()));
          add(new Key(commit, holder.orElseThrow(), isUpdate && !isCompared ? BEFORE_UPDATE : DELETE, isCompared), file);
        }
        for (Map.Entry<String, Long> file : added.entrySet()) {
          boolean isCompared = isWhole || compared.contains(tablet(file.getKey()));
          add(new Key(commit, commit, isUpdate && !isCompared ? AFTER_UPDATE : INSERT, isCompared), file);
        }
      }
      holder = Optional.of(commit);
      before = after;
    }
  }

  /** Each file with the commit that added or removed it last. */
  private void addNet(Optional<Snapshot> predecessor, List<Snapshot> commits) {
    if (commits.isEmpty()) {
      return;
    }
    SortedMap<String, Long> begin = predecessor.map(manifests::files).orElseGet(TreeMap::new);
    SortedMap<String, Long> end = manifests.files(commits.get(commits.size() - 1));
    SortedMap<String, Long> removed = without(begin, end);
    SortedMap<String, Long> added = without(end, begin);
    boolean isWhole = computesUpdates && !removed.isEmpty() && !added.isEmpty();
    Set<String> compared = compared(begin, removed, added);
    Map<String, Snapshot> removedBy = new TreeMap<>();
    Map<String, Snapshot> addedBy = new TreeMap<>();
    SortedMap<String, Long> before = begin;
    for (Snapshot commit : commits) {
      SortedMap<String, Long> after = manifests.files(commit);
      without(before, after).keySet().forEach(path -> removedBy.put(path, commit));
      without(after, before).keySet().forEach(path -> addedBy.put(path, commit));
      before = after;
    }
    for (Map.Entry<String, Long> file : removed.entrySet()) {
      boolean isCompared = isWhole || compared.contains(tablet(file.getKey()));
      add(new Key(removedBy.get(file.getKey()), predecessor.orElseThrow(), DELETE, isCompared), file);
    }
    for (Map.Entry<String, Long> file : added.entrySet()) {
      boolean isCompared = isWhole || compared.contains(tablet(file.getKey()));
      add(new Key(addedBy.get(file.getKey()), addedBy.get(file.getKey()), INSERT, isCompared), file);
    }
  }

  private void add(Key key, Map.Entry<String, Long> file) {
    parts.computeIfAbsent(key, absent -> new TreeMap<>()).put(file.getKey(), file.getValue());
  }

  /** The tablets of which files were both removed and added; all tablets when no file stayed. */
  private Set<String> compared(SortedMap<String, Long> before, SortedMap<String, Long> removed, SortedMap<String, Long> added) {
    boolean isReplaced = !removed.isEmpty() && removed.size() == before.size();
    layoutsMayDiffer |= isReplaced;
    Set<String> found = new HashSet<>();
    if (deduplication == Deduplication.NONE || removed.isEmpty() || added.isEmpty()) {
      return found;
    }
    removed.keySet().forEach(path -> found.add(tablet(path)));
    Set<String> ofAdded = new HashSet<>();
    added.keySet().forEach(path -> ofAdded.add(tablet(path)));
    if (isReplaced) {
      found.addAll(ofAdded);
    } else {
      found.retainAll(ofAdded);
    }
    return found;
  }

  /** A file's partition and bucket of the group: the table's number of buckets may change. */
  private static String tablet(String path) {
    return path.substring(0, path.lastIndexOf('/') + 1) + Buckets.placeOf(path);
  }

  private static SortedMap<String, Long> without(SortedMap<String, Long> files, SortedMap<String, Long> others) {
    SortedMap<String, Long> rest = new TreeMap<>(files);
    rest.keySet().removeAll(others.keySet());
    return rest;
  }
}
