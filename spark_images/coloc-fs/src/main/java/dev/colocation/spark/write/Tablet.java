package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.WriteException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.ToLongFunction;

/** One bucket of one partition of a table. */
public record Tablet(int bucket, Map<String, String> partition) {
  static Tablet of(DataFile file) {
    return new Tablet(file.bucketOfTable(), file.partition());
  }

  @Override
  public String toString() {
    return "bucket " + bucket + " of partition " + partition;
  }

  /** A tablet whose new files have another number of rows than those that they replace have to leave. */
  public record Difference(Tablet tablet, long expected, long found) {
    /** Of files that were to have the same rows. */
    WriteException.RowsDiffer refusal() {
      return new WriteException.RowsDiffer(tablet + ": the manifest has " + expected + " rows, " + found
          + " were rewritten; nothing was changed. Check the replicas: colocation show");
    }
  }

  /**
   * The first tablet in which rows are missing, or too many.
   *
   * @param left how many rows of a replaced file have to be in the new ones
   */
  public static Optional<Difference> difference(List<DataFile> replaced, ToLongFunction<DataFile> left, List<DataFile> written) {
    return difference(replaced, left, written, Tablet::of);
  }

  /** The same by the group's buckets, where the new files have another number of the table's. */
  static Optional<Difference> ofPlaces(List<DataFile> replaced, List<DataFile> written) {
    return difference(replaced, DataFile::rows, written, file -> new Tablet(file.bucket(), file.partition()));
  }

  private static Optional<Difference> difference(
      List<DataFile> replaced, ToLongFunction<DataFile> left, List<DataFile> written, Function<DataFile, Tablet> tabletOf) {
    Map<Tablet, long[]> rows = new LinkedHashMap<>();
    replaced.forEach(file -> rows.computeIfAbsent(tabletOf.apply(file), absent -> new long[2])[0] += left.applyAsLong(file));
    written.forEach(file -> rows.computeIfAbsent(tabletOf.apply(file), absent -> new long[2])[1] += file.rows());
    return rows.entrySet().stream().filter(tablet -> tablet.getValue()[0] != tablet.getValue()[1]).findFirst()
        .map(tablet -> new Difference(tablet.getKey(), tablet.getValue()[0], tablet.getValue()[1]));
  }
}
