package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.RowCounts;
import dev.colocation.spark.fs.Buckets;
import java.io.Serializable;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * An UPDATE, DELETE or MERGE: some committed files are replaced by files with the changed rows and those carried over.
 *
 * <p>It goes on top of other commits unless one of them added files to, or removed files from, a tablet that it has read: then its
 * condition might choose other rows. Compactions conflict only where they replaced one of the same files. So it is as if it had run
 * at its commit. Two MERGEs that insert the same key have both read that key's tablet, and the second one fails.
 *
 * @param replaced paths of committed files, all of tablets in {@code read}
 * @param files new files, of any tablets: an update of a key or partition column moves rows
 * @param buckets that the files were made for
 * @param rows exact counts: the new files have as many rows as the replaced ones, plus those inserted, minus those deleted
 */
public record RowChange(
    Kind kind, Set<String> replaced, List<DataFile> files, Buckets buckets, ReadTablets read, RowCounts rows) implements Change {

  /** The statement that made it. */
  public enum Kind {
    UPDATE("update"),
    DELETE("delete"),
    MERGE("merge");

    private final String label;

    Kind(String label) {
      this.label = label;
    }

    public String label() {
      return label;
    }
  }

  /**
   * The tablets of which rows were read to find those to change: all that have one of the buckets and are in one of the partitions.
   *
   * @param buckets of the table; empty = every bucket
   * @param partitions each entry stands for all partitions that have its values, null = NULL; no entry = every partition
   */
  public record ReadTablets(Set<Integer> buckets, List<Map<String, String>> partitions) implements Serializable {
    /** Every tablet of the table. */
    public static final ReadTablets ALL = new ReadTablets(Set.of(), List.of());

    public ReadTablets {
      buckets = Set.copyOf(buckets);
      partitions = partitions.stream().map(one -> Collections.unmodifiableMap(new LinkedHashMap<>(one))).toList();
    }

    public boolean contains(DataFile file) {
      return (buckets.isEmpty() || buckets.contains(file.bucketOfTable()))
          && (partitions.isEmpty() || Change.isIn(file, partitions));
    }
  }

  public RowChange {
    replaced = Set.copyOf(replaced);
    files = List.copyOf(files);
  }

  @Override
  public String label() {
    return kind.label();
  }

  @Override
  public Optional<RowCounts> rowCounts(OptionalLong rowsRemoved) {
    return Optional.of(rows);
  }

  @Override
  public Optional<Buckets> madeForBuckets() {
    return Optional.of(buckets);
  }

  @Override
  public boolean keepsFiles() {
    return true;
  }

  @Override
  public boolean comparesFiles() {
    return true;
  }

  @Override
  public List<DataFile> kept(List<DataFile> committed) throws Overtaken {
    List<DataFile> kept = Change.without(replaced, committed, "replaces");
    long rowsReplaced = 0;
    for (DataFile file : committed) {
      if (!replaced.contains(file.path())) {
        continue;
      }
      rowsReplaced += file.rows();
      if (!read.contains(file)) {
        throw new IllegalArgumentException(label() + " replaces " + file.path() + ", whose tablet it has not read: " + read);
      }
    }
    checkRows(rowsReplaced);
    return kept;
  }

  /** Refuses to lose or duplicate a row that the statement did not change. */
  private void checkRows(long rowsReplaced) {
    long written = files.stream().mapToLong(DataFile::rows).sum();
    long expected = rowsReplaced + rows.inserted() - rows.deleted();
    if (written != expected) {
      throw new IllegalStateException(label() + " wrote " + written + " rows in place of " + rowsReplaced + ", of which it counts "
          + rows + ": expected " + expected + ". Nothing was changed; please report this defect");
    }
  }

  @Override
  public void checkOvertaking(List<DataFile> beganOn, List<DataFile> committed) throws Overtaken {
    Set<String> before = beganOn.stream().map(DataFile::path).collect(Collectors.toSet());
    Map<String, long[]> changed = new TreeMap<>();
    for (DataFile file : Change.inOneOnly(beganOn, committed)) {
      if (read.contains(file)) {
        changed.computeIfAbsent(tablet(file), absent -> new long[2])[before.contains(file.path()) ? 1 : 0]++;
      }
    }
    if (!changed.isEmpty()) {
      Map.Entry<String, long[]> first = changed.entrySet().iterator().next();
      throw new Overtaken(changed.size() + " of the tablets that it read were changed meanwhile, e.g. " + first.getKey() + ": "
          + first.getValue()[0] + " files were added, " + first.getValue()[1] + " removed");
    }
  }

  private static String tablet(DataFile file) {
    String partition = file.partition().entrySet().stream()
        .map(value -> value.getKey() + "=" + value.getValue()).collect(Collectors.joining(", "));
    return (partition.isEmpty() ? "" : partition + ", ") + "bucket " + file.bucketOfTable();
  }

  @Override
  public Map<String, Integer> padded(Map<String, Integer> declared, Map<String, Integer> before, List<DataFile> kept) {
    return kept.isEmpty() && replaced.isEmpty() ? declared : before;
  }
}
