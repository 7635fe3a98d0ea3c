package dev.colocation.spark.write;

import dev.colocation.spark.cluster.CharColumns;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.cluster.TableState;
import dev.colocation.spark.cluster.WriteException;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;

/**
 * The files of an older snapshot become those of the next one. What was committed since it began would be lost unseen: it has
 * lost then.
 *
 * @param target which the table keeps until the commit, so that nobody deletes its files
 * @param paths of all its files
 * @param files those that the present snapshot lacks; the target's nodes have them
 * @param buckets number of buckets that they were made for
 * @param padded as {@link Change#padded}
 */
public record RollBack(Snapshot target, Set<String> paths, List<DataFile> files, int buckets, Map<String, Integer> padded)
    implements Change {
  public RollBack {
    padded = Map.copyOf(padded);
    paths = Set.copyOf(paths);
    files = List.copyOf(files);
  }

  /**
   * The way from the present snapshot to an older one.
   *
   * @throws WriteException.LoadConflict when the older one's files are not laid out as the table is now
   */
  static RollBack of(TableState table, Snapshot target, StoredManifest wanted, StoredManifest present) {
    NextManifest.refuseOtherLayout(table, wanted, present.buckets());
    Set<String> paths = paths(wanted);
    Set<String> there = paths(present);
    List<DataFile> restored = wanted.files().stream().filter(file -> !there.contains(file.path())).toList();
    return new RollBack(target, paths, restored, wanted.buckets(),
        wanted.padded(CharColumns.lengths(table.columns())));
  }

  private static Set<String> paths(StoredManifest manifest) {
    Set<String> paths = new HashSet<>();
    manifest.files().forEach(file -> paths.add(file.path()));
    return paths;
  }

  @Override
  public String label() {
    return "roll-back";
  }

  @Override
  public OptionalInt madeForBuckets() {
    return OptionalInt.of(buckets);
  }

  @Override
  public boolean keepsFiles() {
    return true;
  }

  @Override
  public boolean goesOnTop() {
    return false;
  }

  @Override
  public Map<String, Integer> padded(Map<String, Integer> declared, Map<String, Integer> before, List<DataFile> kept) {
    return padded;
  }

  /** Files of snapshots that a table keeps no longer are deleted, by whoever reads that. */
  @Override
  public void checkTable(TableState table) {
    if (table.history().stream().noneMatch(target::isSameAs)) {
      throw new WriteException.LoadConflict("table " + table.fullName() + " no longer keeps snapshot " + target.id()
          + "; nothing was changed");
    }
  }

  @Override
  public List<DataFile> kept(List<DataFile> committed) {
    return committed.stream().filter(file -> paths.contains(file.path())).toList();
  }

  /** It goes on top of nothing. */
  @Override
  public void checkOvertaking(List<DataFile> beganOn, List<DataFile> committed) {}
}
