package dev.colocation.spark.write;

import dev.colocation.spark.cluster.CharColumns;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.cluster.TableState;
import dev.colocation.spark.cluster.WriteException.SchemaMismatch;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.Overtaken;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/** What may be done to the files of a table in one commit: its difference. Pure. */
public sealed interface Change {
  /** For messages, and for {@code status.snapshot.operation}. */
  String label();

  /** New files, which the nodes must hold before the commit. */
  default List<DataFile> files() {
    return List.of();
  }

  /** Number of buckets that the new files were made for; empty for changes that make no files. */
  default OptionalInt madeForBuckets() {
    return OptionalInt.empty();
  }

  /** Whether files that are there may stay, so that the new ones must be of their layout. */
  boolean keepsFiles();

  /** Whether it may be applied to a snapshot that is newer than the one it began on: what replaces everything has lost then. */
  default boolean goesOnTop() {
    return keepsFiles();
  }

  /**
   * Checks what must be true of the table until the commit.
   *
   * @throws WriteException.LoadConflict saying what is not
   */
  default void checkTable(TableState table) {}

  /**
   * The committed files that stay, in their order.
   *
   * @throws Overtaken saying what is missing
   */
  List<DataFile> kept(List<DataFile> committed) throws Overtaken;

  /**
   * Checks that what was committed since the change began may stay beside it, or be replaced by it.
   *
   * @throws Overtaken saying what has changed
   */
  void checkOvertaking(List<DataFile> beganOn, List<DataFile> committed) throws Overtaken;

  /**
   * CHAR columns, by their names in files, of which every value is so long in all files after the change.
   *
   * @param declared as the table says, by which new rows are padded
   * @param before the same of the committed files
   * @param kept the committed files that stay
   */
  default Map<String, Integer> padded(Map<String, Integer> declared, Map<String, Integer> before, List<DataFile> kept) {
    return before;
  }

  /** Whether a file is in one of the partitions; each entry means every partition that has its values. */
  static boolean isIn(DataFile file, List<Map<String, String>> partitions) {
    return partitions.stream().anyMatch(chosen -> hasValues(file.partition(), chosen));
  }

  private static boolean hasValues(Map<String, String> partition, Map<String, String> chosen) {
    return chosen.entrySet().stream().allMatch(value -> partition.containsKey(value.getKey())
        && Objects.equals(partition.get(value.getKey()), value.getValue()));
  }

  /** How new rows go together with those that are there. */
  enum Mode {
    APPEND("append"),
    /** All rows are replaced. */
    OVERWRITE("overwrite"),
    /** The partitions that the rows are in are replaced: Spark's dynamic INSERT OVERWRITE. */
    OVERWRITE_PARTITIONS("overwrite-partitions"),
    /** Named partitions are replaced, also when no row comes: SQL's INSERT OVERWRITE … PARTITION (dt='x'). */
    OVERWRITE_MATCHING("overwrite-matching");

    private final String label;

    Mode(String label) {
      this.label = label;
    }

    /** As users write it, and as messages say it. */
    public String label() {
      return label;
    }
  }

  /** The committed files are no longer those that a change began on, and it may not go on top of them. */
  final class Overtaken extends Exception {
    private static final long serialVersionUID = 1L;

    Overtaken(String message) {
      super(message);
    }
  }

  /**
   * A load. An append goes on top of whatever was committed meanwhile. An overwrite that was overtaken has lost; one of
   * partitions has lost only if files came or went in those that it replaces.
   *
   * @param files all of it
   * @param buckets number of buckets that the files were made for
   * @param replaced of {@link Mode#OVERWRITE_MATCHING}, and of no other mode: each entry replaces every partition that has its
   *     values, and new files must lie in one of them
   */
  record NewFiles(Mode mode, List<DataFile> files, int buckets, Optional<List<Map<String, String>>> replaced)
      implements Change {

    public NewFiles {
      files = List.copyOf(files);
      if (replaced.isPresent() != (mode == Mode.OVERWRITE_MATCHING)) {
        throw new IllegalArgumentException("mode " + mode.label() + (replaced.isPresent() ? " takes no" : " needs")
            + " partitions to replace");
      }
      for (DataFile file : files) {
        if (replaced.isPresent() && !Change.isIn(file, replaced.get())) {
          throw new SchemaMismatch("rows are in partition " + file.partition() + ", which is none of those that are replaced: "
              + replaced.get() + ". Filter them, or name their partition in the condition");
        }
      }
    }

    public NewFiles(Mode mode, List<DataFile> files, int buckets) {
      this(mode, files, buckets, Optional.empty());
    }

    @Override
    public String label() {
      return mode.label();
    }

    @Override
    public OptionalInt madeForBuckets() {
      return OptionalInt.of(buckets);
    }

    @Override
    public boolean keepsFiles() {
      return mode != Mode.OVERWRITE;
    }

    @Override
    public List<DataFile> kept(List<DataFile> committed) {
      Predicate<DataFile> goes = replaces();
      return committed.stream().filter(file -> !goes.test(file)).toList();
    }

    @Override
    public void checkOvertaking(List<DataFile> beganOn, List<DataFile> committed) throws Overtaken {
      Predicate<DataFile> goes = replaces();
      Set<Map<String, String>> hit = new LinkedHashSet<>();
      inOneOnly(beganOn, committed).stream().filter(goes).forEach(file -> hit.add(file.partition()));
      if (mode != Mode.OVERWRITE && !hit.isEmpty()) {
        String example = hit.iterator().next().entrySet().stream()
            .map(value -> value.getKey() + "=" + value.getValue()).collect(Collectors.joining(", "));
        throw new Overtaken(
            hit.size() + " of the partitions that it replaces were changed meanwhile, e.g. " + example);
      }
    }

    @Override
    public Map<String, Integer> padded(Map<String, Integer> declared, Map<String, Integer> before, List<DataFile> kept) {
      return kept.isEmpty() ? declared : before;
    }

    /** Which committed files go. */
    private Predicate<DataFile> replaces() {
      Set<Map<String, String>> own = new HashSet<>();
      files.forEach(file -> own.add(file.partition()));
      return switch (mode) {
        case APPEND -> file -> false;
        case OVERWRITE -> file -> true;
        case OVERWRITE_PARTITIONS -> file -> own.contains(file.partition());
        case OVERWRITE_MATCHING -> file -> Change.isIn(file, replaced.orElseThrow());
      };
    }

    /** Files that came or went. */
    private static List<DataFile> inOneOnly(List<DataFile> beganOn, List<DataFile> committed) {
      Map<String, DataFile> found = new LinkedHashMap<>();
      beganOn.forEach(file -> found.put(file.path(), file));
      for (DataFile file : committed) {
        if (found.remove(file.path()) == null) {
          found.put(file.path(), file);
        }
      }
      return List.copyOf(found.values());
    }
  }

  /**
   * A compaction: the rows of exactly these files, in other files. It goes on top of loads that were committed meanwhile, as
   * long as every file that it read is still committed.
   *
   * @param replaced paths of the files that were read
   * @param buckets number of buckets that the files were made for
   */
  record Rewrite(Set<String> replaced, List<DataFile> files, int buckets) implements Change {
    public Rewrite {
      replaced = Set.copyOf(replaced);
      files = List.copyOf(files);
    }

    @Override
    public String label() {
      return "compact";
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
    public List<DataFile> kept(List<DataFile> committed) throws Overtaken {
      TreeSet<String> gone = new TreeSet<>(replaced);
      committed.forEach(file -> gone.remove(file.path()));
      if (!gone.isEmpty()) {
        throw new Overtaken(gone.size() + " of the " + replaced.size()
            + " files that it read are no longer committed, e.g. " + gone.first());
      }
      return committed.stream().filter(file -> !replaced.contains(file.path())).toList();
    }

    /** Whether its files are still there {@link #kept} says. */
    @Override
    public void checkOvertaking(List<DataFile> beganOn, List<DataFile> committed) {}
  }

  /**
   * Partitions go with all rows that are in them at the commit, as with SQL's DROP PARTITION.
   *
   * @param partitions each entry drops every partition that has its values; null = NULL
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
    public boolean keepsFiles() {
      return true;
    }

    @Override
    public List<DataFile> kept(List<DataFile> committed) {
      return committed.stream().filter(file -> !Change.isIn(file, partitions)).toList();
    }

    /** It drops what it finds. */
    @Override
    public void checkOvertaking(List<DataFile> beganOn, List<DataFile> committed) {}
  }

  /** All files stay, under a definition with fewer columns. Files that have one of these do not fit it: then it is refused. */
  record DropColumns() implements Change {
    @Override
    public String label() {
      return "drop-columns";
    }

    @Override
    public boolean keepsFiles() {
      return true;
    }

    @Override
    public List<DataFile> kept(List<DataFile> committed) {
      return committed;
    }

    @Override
    public void checkOvertaking(List<DataFile> beganOn, List<DataFile> committed) {}
  }

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
  record RollBack(Snapshot target, Set<String> paths, List<DataFile> files, int buckets, Map<String, Integer> padded)
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
}
