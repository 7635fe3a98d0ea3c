package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.catalog.TableDefinition.ColumnDefinition;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.Json;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.write.Change.DropColumns;
import dev.colocation.spark.write.Transaction;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.TableChange;

/** {@code ALTER TABLE … COLUMN} on a spec's columns. Committed files stay as they are; changes that do not fit them are refused. */
final class ColumnChanges {
  /** Fields of a spec that list the columns of the layout, by name. */
  static final List<String> LAYOUTS = List.of("bucketedBy", "partitionedBy", "sortedBy");

  private static final String WITH_ALL_ROWS = "use CREATE OR REPLACE TABLE … AS SELECT with ";

  /** The substitute where older snapshots of a replaced table would hold the column, too. */
  private static final String ANOTHER_TABLE = "use CREATE TABLE … AS SELECT, a table of another name, with ";

  private final ObjectNode spec;
  private final ArrayNode columns;
  private final List<String> held;

  /**
   * Changes {@code spec} itself.
   *
   * @param held names of the columns that the newest snapshot's files may have
   */
  ColumnChanges(ObjectNode spec, List<String> held) {
    this.spec = spec;
    this.held = held;
    this.columns = (ArrayNode) spec.path("columns");
  }

  void apply(TableChange.ColumnChange change) {
    String name = String.join(".", change.fieldNames());
    if (change.fieldNames().length > 1) {
      throw TableDefinition.refused("ALTER TABLE of field " + name + "; files hold " + change.fieldNames()[0]
          + " as it is: add a column, or " + ANOTHER_TABLE + "the changed column");
    }
    if (change instanceof TableChange.AddColumn add) {
      add(name, add);
    } else if (change instanceof TableChange.RenameColumn rename) {
      rename(name, rename.newName());
    } else if (change instanceof TableChange.UpdateColumnComment update) {
      column(name).put("comment", update.newComment() == null ? "" : update.newComment());
    } else if (change instanceof TableChange.UpdateColumnPosition move) {
      move(name, move.position());
    } else if (change instanceof TableChange.DeleteColumn delete) {
      delete(name, delete);
    } else if (change instanceof TableChange.UpdateColumnNullability update && update.nullable()) {
      column(name).put("nullable", true);
    } else if (!isNoChange(change)) {
      throw refused(name, change);
    }
  }

  /** {@code DROP DEFAULT}: no column has one. */
  @SuppressWarnings("deprecation") // Spark 4.0 has nothing else
  private static boolean isNoChange(TableChange.ColumnChange change) {
    return change instanceof TableChange.UpdateColumnDefaultValue update
        && (update.newDefaultValue() == null || update.newDefaultValue().isEmpty());
  }

  private RuntimeException refused(String name, TableChange.ColumnChange change) {
    if (change instanceof TableChange.UpdateColumnDefaultValue) {
      return TableDefinition.refused("ALTER COLUMN " + name + " SET DEFAULT; columns have no values but those of their rows: write "
          + "the value with each row");
    }
    if (change instanceof TableChange.UpdateColumnType update) {
      return TableDefinition.refused("ALTER COLUMN " + name + " TYPE " + update.newDataType().catalogString() + "; files hold it as "
          + column(name).path("type").asText() + ": add a column of another name, or " + ANOTHER_TABLE + "a CAST");
    }
    return TableDefinition.refused("ALTER COLUMN " + name + " SET NOT NULL; files may hold NULL: " + WITH_ALL_ROWS
        + "the rows that have it, into a column that is NOT NULL");
  }

  /** Drops a column that no file has. */
  private void delete(String name, TableChange.DeleteColumn delete) {
    if (delete.ifExists() && !exists(name)) {
      return;
    }
    String stored = storedName(column(name));
    boolean isLaidOutBy = LAYOUTS.stream().anyMatch(layout -> isIn(layout, name));
    if (isLaidOutBy || held.stream().anyMatch(stored::equalsIgnoreCase)) {
      throw TableDefinition.refused("DROP COLUMN or REPLACE COLUMNS of " + name + "; "
          + (isLaidOutBy ? "the table is laid out by it: " : "files hold it: ") + WITH_ALL_ROWS + "the columns that stay");
    }
    columns.remove(index(name));
  }

  private void add(String name, TableChange.AddColumn add) {
    ObjectNode column = new ColumnDefinition(
        name, add.dataType(), add.isNullable(), add.comment(), add.defaultValue() == null).toSpec();
    columns.insert(add.position() == null ? columns.size() : place(name, add.position()), column);
    storeApart(columns);
  }

  /** Gives new columns names in files that no other column has: a renamed column keeps its former name in files. */
  static void storeApart(ArrayNode columns) {
    for (JsonNode column : columns) {
      Set<String> taken = new HashSet<>();
      columns.forEach(other -> taken.add(other == column ? "" : storedName(other).toLowerCase(Locale.ROOT)));
      if (column.path("storedAs").asText("").isEmpty() && taken.contains(nameOf(column))) {
        ((ObjectNode) column).put("storedAs", free(column.path("name").asText(), taken));
      }
    }
  }

  private static String free(String name, Set<String> taken) {
    int number = 2;
    while (taken.contains((name + "_" + number).toLowerCase(Locale.ROOT))) {
      number++;
    }
    return name + "_" + number;
  }

  private static String storedName(JsonNode column) {
    String stored = column.path("storedAs").asText("");
    return stored.isEmpty() ? column.path("name").asText() : stored;
  }

  private void move(String name, TableChange.ColumnPosition position) {
    ObjectNode column = column(name);
    if (isIn("partitionedBy", name)) {
      throw partitionsComeLast(name);
    }
    columns.remove(index(name));
    columns.insert(place(name, position), column);
  }

  private int place(String name, TableChange.ColumnPosition position) {
    if (!(position instanceof TableChange.After after)) {
      return 0;
    }
    if (isIn("partitionedBy", after.column())) {
      throw partitionsComeLast(after.column());
    }
    if (after.column().equalsIgnoreCase(name)) {
      throw TableDefinition.refused("column " + name + " AFTER itself; name another column");
    }
    return index(after.column()) + 1;
  }

  private RuntimeException partitionsComeLast(String name) {
    return TableDefinition.refused("a place by FIRST or AFTER for or behind " + name + ", a column of PARTITIONED BY; these come "
        + "last, in that order: leave it out, or name another column");
  }

  /** Renames a column; files keep its first name. */
  private void rename(String name, String wanted) {
    for (String layout : LAYOUTS) {
      if (isIn(layout, name)) {
        throw TableDefinition.refused("RENAME COLUMN " + name + ", which is in " + layout + ": files are laid out by its name; "
            + "use another name in queries (AS), or CREATE TABLE … AS SELECT a table of another name");
      }
    }
    ObjectNode column = column(name);
    column.put("storedAs", storedName(column));
    if (column.path("storedAs").asText().equals(wanted)) {
      column.remove("storedAs");
    }
    column.put("name", wanted);
  }

  private boolean isIn(String layout, String name) {
    return Json.texts(spec.path(layout)).stream().anyMatch(name::equalsIgnoreCase);
  }

  private boolean exists(String name) {
    for (JsonNode column : columns) {
      if (nameOf(column).equals(name.toLowerCase(Locale.ROOT))) {
        return true;
      }
    }
    return false;
  }

  private ObjectNode column(String name) {
    return (ObjectNode) columns.get(index(name));
  }

  private int index(String name) {
    for (int index = 0; index < columns.size(); index++) {
      if (nameOf(columns.get(index)).equals(name.toLowerCase(Locale.ROOT))) {
        return index;
      }
    }
    throw TableDefinition.refused("there is no column " + name);
  }

  private static String nameOf(JsonNode column) {
    return column.path("name").asText().toLowerCase(Locale.ROOT);
  }

  /**
   * {@code ALTER TABLE … DROP COLUMN} of a table with a snapshot: only columns that no file of it has, since they were added later or
   * the table was truncated. The operator takes a definition without columns that it has accepted for the definition of other rows,
   * so the present files are committed with it.
   */
  static final class DroppedColumns {
    private final ColocationTable table;

    DroppedColumns(ColocationTable table) {
      this.table = table;
    }

    static boolean areIn(TableChange... changes) {
      return Arrays.stream(changes).anyMatch(TableChange.DeleteColumn.class::isInstance);
    }

    /** Makes all changes, or none when a concurrent load has written one of the columns. */
    void drop(TableWriter writer, TableChange... changes) {
      ColocatedTable object = table.loaded().object();
      boolean hasNoFiles = object.snapshot().filter(one -> one.hasCounts() && one.files() == 0).isPresent();
      List<String> held = hasNoFiles ? List.of()
          : TableLoader.manifest(table.loaded().location(), table.loaded().fileSystem()).columns().stream()
              .map(Manifest.Column::storedName).toList();
      TableWriter.Changed changed = writer.replace(object.namespace(), object.name(), TableChanges.patching(held, changes));
      if (!changed.patch().isEmpty()) {
        Transaction.orUndo(
            () -> table.target().begin().commit(table.name(), new DropColumns(), List.of(), Optional.empty()),
            () -> writer.undo(object.namespace(), object.name(), changed));
      }
    }
  }
}
