package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.TableObject;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.write.Commits;
import dev.colocation.spark.write.DropColumns;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.connector.catalog.TableChange;

/**
 * {@code ALTER TABLE … DROP COLUMN} of a table that has rows: of columns that no file has, since they were added after the newest
 * snapshot. For the operator a definition that lacks columns which it has accepted is one of other rows, so the files that are there
 * are committed with it.
 */
final class DroppedColumns {
  private final ColocationTable table;

  DroppedColumns(ColocationTable table) {
    this.table = table;
  }

  static boolean areIn(TableChange... changes) {
    return Arrays.stream(changes).anyMatch(TableChange.DeleteColumn.class::isInstance);
  }

  /** All the changes, or none; a load that has used one of the columns meanwhile wins. */
  void drop(TableWriter writer, TableChange... changes) {
    TableObject object = table.loaded().object();
    List<String> held = TableLoader.manifest(table.loaded().location(), table.loaded().fileSystem()).columns().stream()
        .map(Manifest.Column::storedName).toList();
    TableWriter.Changed changed = writer.replace(object.namespace(), object.name(), TableChanges.patching(held, changes));
    if (!changed.patch().isEmpty()) {
      Commits.orUndo(
          () -> Commits.commit(table.name(), table.target().begin(), new DropColumns(), List.of(), Optional.empty()),
          () -> writer.undo(object.namespace(), object.name(), changed));
    }
  }
}
