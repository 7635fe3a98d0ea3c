package dev.colocation.spark.cluster;

import dev.colocation.spark.fs.Manifest;
import java.util.List;
import java.util.stream.Stream;

/**
 * A table's columns and how its rows are laid out in files, by the names that queries use. Names of columns have no case.
 *
 * @param partitionedBy in the order of the folders
 * @param sortedBy order of rows within a file; the bucket key unless the definition gives another
 */
public record TableLayout(
    List<Manifest.Column> columns, List<String> bucketedBy, List<String> partitionedBy, List<String> sortedBy) {
  /** The column of this name. */
  public Manifest.Column column(String name) {
    return columns.stream().filter(column -> column.name().equalsIgnoreCase(name)).findFirst()
        .orElseThrow(() -> new WriteException.SchemaMismatch("there is no column " + name));
  }

  /** Columns by the names that files have. The layout may spell them in another case, which Spark's scans do not accept. */
  public List<String> storedNames(List<String> names) {
    return names.stream().map(name -> columns.stream().filter(column -> column.name().equalsIgnoreCase(name)).findFirst()
        .map(Manifest.Column::storedName).orElse(name)).toList();
  }

  /** The partition columns by the names that files and folders have. */
  public List<String> storedPartitions() {
    return storedNames(partitionedBy);
  }

  public boolean isPartition(Manifest.Column column) {
    return partitionedBy.stream().anyMatch(column.name()::equalsIgnoreCase);
  }

  /** All columns, partition columns last, as in Spark's file tables. */
  public Stream<Manifest.Column> partitionsLast() {
    return Stream.concat(
        columns.stream().filter(column -> !isPartition(column)),
        partitionedBy.stream().flatMap(name -> columns.stream().filter(column -> column.name().equalsIgnoreCase(name))));
  }

  /** The order of rows within a file, where each partition column has a single value. */
  public List<String> sortedInFiles() {
    return sortedBy.stream().filter(name -> partitionedBy.stream().noneMatch(name::equalsIgnoreCase)).toList();
  }
}
