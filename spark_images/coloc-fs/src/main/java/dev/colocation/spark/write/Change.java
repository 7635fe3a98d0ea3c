package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.TableState;
import dev.colocation.spark.cluster.WriteException;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalInt;

/** What may be done to the files of a table in one commit: its difference. Pure. */
public sealed interface Change permits NewFiles, Rewrite, DropPartitions, DropColumns, RollBack {
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
}
