package dev.colocation.spark.write;

import dev.colocation.spark.cluster.TableState;
import dev.colocation.spark.cluster.WriteException.SchemaMismatch;
import dev.colocation.spark.fs.Manifest;
import java.util.List;

/**
 * How a table's rows are laid out in files, by the names that queries use.
 *
 * @param sortedBy order of rows within a file
 */
public record TableLayout(
    List<Manifest.Column> columns, List<String> bucketedBy, List<String> partitionedBy, List<String> sortedBy) {

  /** As the table's definition says. */
  public static TableLayout of(TableState table) {
    return new TableLayout(table.columns(), table.bucketedBy(), table.partitionedBy(), table.sortedBy());
  }

  /** A column by the name that queries use, without regard to case. */
  public Manifest.Column column(String name) {
    return columns.stream().filter(column -> column.name().equalsIgnoreCase(name)).findFirst()
        .orElseThrow(() -> new SchemaMismatch("there is no column " + name));
  }

  /** A partition column has one value in a file. */
  List<String> sortedInFiles() {
    return sortedBy.stream().filter(name -> partitionedBy.stream().noneMatch(name::equalsIgnoreCase)).toList();
  }

  boolean isPartition(Manifest.Column column) {
    return partitionedBy.stream().anyMatch(column.name()::equalsIgnoreCase);
  }
}
