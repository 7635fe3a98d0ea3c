package dev.colocation.spark.write;

import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.RowCounts;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.cluster.TypeNames;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.cluster.WriteException.SchemaMismatch;
import dev.colocation.spark.fs.Buckets;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * What one commit does to the files of a table: which committed files stay, which new ones come, and whether it may go on top of
 * a commit that overtook it. Pure.
 */
public sealed interface Change
    permits Change.NewFiles, Change.SameRows, Change.DropPartitions, Change.DropColumns, Change.RollBack, RowChange {
  /** The committed files are no longer those that a change began on, and it may not go on top of them. */
  final class Overtaken extends Exception {
    private static final long serialVersionUID = 1L;

    Overtaken(String message) {
      super(message);
    }
  }

  /** The change's name in messages and in {@code status.snapshot.operation}. */
  String label();

  /** New files, which the nodes must hold before the commit. */
  default List<DataFile> files() {
    return List.of();
  }

  /** The buckets that the new files were made for; empty for changes that write no files, whose table keeps its buckets. */
  default Optional<Buckets> madeForBuckets() {
    return Optional.empty();
  }

  /** Whether a commit changed files only, and no row. */
  static boolean areRewritten(Snapshot snapshot) {
    return Rewrite.made(snapshot) || snapshot.operation().equals(Rebucket.LABEL);
  }

  /** Whether the table has another number of buckets after it. */
  default boolean rebuckets() {
    return false;
  }

  /**
   * How many rows it changes; empty = unknown.
   *
   * @param rowsRemoved of the committed files that do not stay; empty = unknown
   */
  Optional<RowCounts> rowCounts(OptionalLong rowsRemoved);

  /** Whether committed files may stay, so that the new ones must have their layout. */
  boolean keepsFiles();

  /** Whether it may be applied to a newer snapshot than the one it began on. A change that replaces everything may not. */
  default boolean goesOnTop() {
    return keepsFiles();
  }

  /** Whether {@link #checkOvertaking} has to compare files, so that both manifests are read. */
  default boolean comparesFiles() {
    return false;
  }

  /**
   * Checks what must hold for the table until the commit.
   *
   * @throws WriteException.LoadConflict with what does not hold
   */
  default void checkTable(ColocatedTable table) {}

  /**
   * The committed files that stay, in their order.
   *
   * @throws Overtaken with what is missing
   */
  List<DataFile> kept(List<DataFile> committed) throws Overtaken;

  /**
   * Checks whether commits since the change began may stay with it, or be replaced by it.
   *
   * @throws Overtaken with what they have changed
   */
  default void checkOvertaking(List<DataFile> beganOn, List<DataFile> committed) throws Overtaken {}

  /**
   * CHAR columns, by their names in files, all values of which are padded to this length after the change.
   *
   * @param declared the definition's CHAR columns, to whose lengths new rows are padded
   * @param before the same of the committed files
   * @param kept the committed files that stay
   */
  default Map<String, Integer> padded(Map<String, Integer> declared, Map<String, Integer> before, List<DataFile> kept) {
    return before;
  }

  /** Whether a file is in one of the partitions; each entry stands for all partitions that have its values. */
  static boolean isIn(DataFile file, List<Map<String, String>> partitions) {
    return partitions.stream().anyMatch(chosen -> hasValues(file.partition(), chosen));
  }

  /**
   * The committed files without those that a change has read and replaces.
   *
   * @param replaced their paths
   * @param use what the change does with them, for the message
   * @throws Overtaken when one of them is no longer committed
   */
  static List<DataFile> without(Set<String> replaced, List<DataFile> committed, String use) throws Overtaken {
    TreeSet<String> gone = new TreeSet<>(replaced);
    committed.forEach(file -> gone.remove(file.path()));
    if (!gone.isEmpty()) {
      throw new Overtaken(gone.size() + " of the " + replaced.size() + " files that it " + use + " are no longer committed, e.g. "
          + gone.first());
    }
    return committed.stream().filter(file -> !replaced.contains(file.path())).toList();
  }

  /** Files that were added or removed. */
  static List<DataFile> inOneOnly(List<DataFile> beganOn, List<DataFile> committed) {
    Map<String, DataFile> found = new LinkedHashMap<>();
    beganOn.forEach(file -> found.put(file.path(), file));
    for (DataFile file : committed) {
      if (found.remove(file.path()) == null) {
        found.put(file.path(), file);
      }
    }
    return List.copyOf(found.values());
  }

  private static boolean hasValues(Map<String, String> partition, Map<String, String> chosen) {
    return chosen.entrySet().stream().allMatch(value -> partition.containsKey(value.getKey())
        && Objects.equals(partition.get(value.getKey()), value.getValue()));
  }

  /** Which committed rows new rows replace. */
  enum Mode {
    APPEND("append"),
    /** All rows are replaced. */
    OVERWRITE("overwrite"),
    /** The partitions that have new rows are replaced: Spark's dynamic INSERT OVERWRITE. */
    OVERWRITE_PARTITIONS("overwrite-partitions"),
    /** The named partitions are replaced, also by no rows: SQL's INSERT OVERWRITE … PARTITION (dt='x'). */
    OVERWRITE_MATCHING("overwrite-matching");

    private final String label;

    Mode(String label) {
      this.label = label;
    }

    /** The mode's name for users, and in messages. */
    public String label() {
      return label;
    }
  }

  /**
   * A load. An append goes on top of any commit. An overwrite that was overtaken fails; an overwrite of partitions fails only if
   * files were added to or removed from these partitions, other than by compactions.
   *
   * @param files all of its files
   * @param buckets that the files were made for
   * @param replaced only for {@link Mode#OVERWRITE_MATCHING}: each entry replaces all partitions that have its values, and new
   *     files must be in one of them
   */
  record NewFiles(Mode mode, List<DataFile> files, Buckets buckets, Optional<List<Map<String, String>>> replaced)
      implements Change {
    public NewFiles {
      files = List.copyOf(files);
      if (replaced.isPresent() != (mode == Mode.OVERWRITE_MATCHING)) {
        throw new IllegalArgumentException("mode " + mode.label() + (replaced.isPresent() ? " takes no" : " needs")
            + " partitions to replace");
      }
      for (DataFile file : files) {
        if (replaced.isPresent() && !isIn(file, replaced.get())) {
          throw new SchemaMismatch("rows are in partition " + file.partition() + ", which is none of those that are replaced: "
              + replaced.get() + ". Filter them, or name their partition in the condition");
        }
      }
    }

    public NewFiles(Mode mode, List<DataFile> files, Buckets buckets) {
      this(mode, files, buckets, Optional.empty());
    }

    @Override
    public String label() {
      return mode.label();
    }

    @Override
    public Optional<RowCounts> rowCounts(OptionalLong rowsRemoved) {
      long inserted = files.stream().mapToLong(DataFile::rows).sum();
      return rowsRemoved.isEmpty() ? Optional.empty() : Optional.of(new RowCounts(inserted, 0, rowsRemoved.getAsLong()));
    }

    @Override
    public Optional<Buckets> madeForBuckets() {
      return Optional.of(buckets);
    }

    @Override
    public boolean keepsFiles() {
      return mode != Mode.OVERWRITE;
    }

    @Override
    public boolean comparesFiles() {
      return mode != Mode.APPEND;
    }

    @Override
    public List<DataFile> kept(List<DataFile> committed) {
      Predicate<DataFile> goes = replacedFiles();
      return committed.stream().filter(file -> !goes.test(file)).toList();
    }

    @Override
    public void checkOvertaking(List<DataFile> beganOn, List<DataFile> committed) throws Overtaken {
      Predicate<DataFile> goes = replacedFiles();
      Set<Map<String, String>> changed = new LinkedHashSet<>();
      inOneOnly(beganOn, committed).stream().filter(goes).forEach(file -> changed.add(file.partition()));
      if (!changed.isEmpty()) {
        String example = changed.iterator().next().entrySet().stream()
            .map(value -> value.getKey() + "=" + value.getValue()).collect(Collectors.joining(", "));
        throw new Overtaken(
            changed.size() + " of the partitions that it replaces were changed meanwhile, e.g. " + example);
      }
    }

    @Override
    public Map<String, Integer> padded(Map<String, Integer> declared, Map<String, Integer> before, List<DataFile> kept) {
      return kept.isEmpty() ? declared : before;
    }

    private Predicate<DataFile> replacedFiles() {
      Set<Map<String, String>> own = new HashSet<>();
      files.forEach(file -> own.add(file.partition()));
      return switch (mode) {
        case APPEND -> file -> false;
        case OVERWRITE -> file -> true;
        case OVERWRITE_PARTITIONS -> file -> own.contains(file.partition());
        case OVERWRITE_MATCHING -> file -> isIn(file, replaced.orElseThrow());
      };
    }
  }

  /** The rows of files in other files: a snapshot of it has the rows of the one before. */
  sealed interface SameRows extends Change permits Rewrite, Rebucket {
    /** That the files were made for. */
    Buckets buckets();

    @Override
    default Optional<RowCounts> rowCounts(OptionalLong rowsRemoved) {
      return Optional.of(RowCounts.NONE);
    }

    @Override
    default Optional<Buckets> madeForBuckets() {
      return Optional.of(buckets());
    }

    @Override
    default boolean keepsFiles() {
      return true;
    }
  }

  /**
   * A compaction: the rows of exactly these files, in other files. It goes on top of later loads as long as every file that it
   * read is still committed.
   *
   * @param replaced paths of the files that were read
   * @param buckets that the files were made for
   */
  record Rewrite(Set<String> replaced, List<DataFile> files, Buckets buckets) implements SameRows {
    private static final String LABEL = "compact";

    public Rewrite {
      replaced = Set.copyOf(replaced);
      files = List.copyOf(files);
    }

    /** Whether a compaction made a snapshot: each tablet has the same rows as in the snapshot before. */
    public static boolean made(Snapshot snapshot) {
      return snapshot.operation().equals(LABEL);
    }

    @Override
    public String label() {
      return LABEL;
    }

    @Override
    public List<DataFile> kept(List<DataFile> committed) throws Overtaken {
      return without(replaced, committed, "read");
    }
  }

  /**
   * The rows of all committed files, in files for another number of buckets. Files that were added meanwhile would have the old
   * number, so it fails when there are any.
   *
   * @param replaced paths of the files that were read
   * @param buckets that the table has afterwards
   */
  record Rebucket(Set<String> replaced, List<DataFile> files, Buckets buckets) implements SameRows {
    private static final String LABEL = "rebucket";

    public Rebucket {
      replaced = Set.copyOf(replaced);
      files = List.copyOf(files);
    }

    @Override
    public String label() {
      return LABEL;
    }

    @Override
    public boolean rebuckets() {
      return true;
    }

    @Override
    public List<DataFile> kept(List<DataFile> committed) throws Overtaken {
      List<DataFile> added = without(replaced, committed, "read");
      if (!added.isEmpty()) {
        throw new Overtaken(added.size() + " files were added meanwhile, e.g. " + added.get(0).path());
      }
      return List.of();
    }
  }

  /**
   * Partitions are dropped with all rows that they have at the commit, as with SQL's DROP PARTITION.
   *
   * @param partitions each entry drops all partitions that have its values; null = NULL
   */
  record DropPartitions(List<Map<String, String>> partitions) implements Change {
    public DropPartitions {
      partitions = List.copyOf(partitions);
    }

    @Override
    public String label() {
      return "drop-partitions";
    }

    @Override
    public Optional<RowCounts> rowCounts(OptionalLong rowsRemoved) {
      return rowsRemoved.isEmpty() ? Optional.empty() : Optional.of(new RowCounts(0, 0, rowsRemoved.getAsLong()));
    }

    @Override
    public boolean keepsFiles() {
      return true;
    }

    @Override
    public List<DataFile> kept(List<DataFile> committed) {
      return committed.stream().filter(file -> !isIn(file, partitions)).toList();
    }
  }

  /** All files stay, under a definition with fewer columns. It is refused when files have one of the dropped columns. */
  record DropColumns() implements Change {
    @Override
    public String label() {
      return "drop-columns";
    }

    @Override
    public Optional<RowCounts> rowCounts(OptionalLong rowsRemoved) {
      return Optional.of(RowCounts.NONE);
    }

    @Override
    public boolean keepsFiles() {
      return true;
    }

    @Override
    public List<DataFile> kept(List<DataFile> committed) {
      return committed;
    }
  }

  /**
   * The files of an older snapshot become those of the next one. It fails when it was overtaken, since it would undo commits that
   * its user has not seen.
   *
   * @param target must be in the table's history until the commit; agents may delete the files of expired snapshots
   * @param paths of all its files
   * @param files those that the present snapshot lacks; nodes already hold them
   * @param padded see {@link Change#padded}
   */
  record RollBack(Snapshot target, Set<String> paths, List<DataFile> files, Map<String, Integer> padded)
      implements Change {
    public RollBack {
      padded = Map.copyOf(padded);
      paths = Set.copyOf(paths);
      files = List.copyOf(files);
    }

    /**
     * The way from the present snapshot to an older one.
     *
     * @throws WriteException.LoadConflict when the older snapshot's files do not have the table's present layout
     */
    static RollBack of(ColocatedTable table, Snapshot target, StoredManifest wanted, StoredManifest present) {
      NextManifest.refuseOtherLayout(table, wanted, present.buckets());
      Set<String> there = paths(present);
      List<DataFile> restored = wanted.files().stream().filter(file -> !there.contains(file.path())).toList();
      return new RollBack(target, paths(wanted), restored, wanted.padded(TypeNames.charLengths(table.layout().columns())));
    }

    private static Set<String> paths(StoredManifest manifest) {
      return manifest.files().stream().map(DataFile::path).collect(Collectors.toSet());
    }

    @Override
    public String label() {
      return "roll-back";
    }

    @Override
    public Optional<RowCounts> rowCounts(OptionalLong rowsRemoved) {
      return Optional.empty();
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

    @Override
    public void checkTable(ColocatedTable table) {
      if (table.history().stream().noneMatch(target::isSameAs)) {
        throw new WriteException.LoadConflict("table " + table.fullName() + " no longer keeps snapshot " + target.id()
            + "; nothing was changed");
      }
    }

    @Override
    public List<DataFile> kept(List<DataFile> committed) {
      return committed.stream().filter(file -> paths.contains(file.path())).toList();
    }
  }
}
