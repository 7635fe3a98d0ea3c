package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Json;
import dev.colocation.spark.cluster.TypeNames;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;

/** Converts {@code ALTER TABLE} into a change of a ColocatedTable's spec, which the API server and the operator check. */
final class TableChanges {
  private TableChanges() {}

  /** Like {@link #patch}, on the object that the function is given. */
  static Function<JsonNode, ObjectNode> patching(List<String> held, TableChange... changes) {
    return object -> {
      requireValues(object, changes);
      return patch(object.path("spec"), held, changes);
    };
  }

  /**
   * The fields of the spec that change, with their new values.
   *
   * @param held names of the columns that the newest snapshot's files may have
   */
  static ObjectNode patch(JsonNode spec, List<String> held, TableChange... changes) {
    ObjectNode patched = spec.deepCopy();
    for (TableChange change : changes) {
      if (change instanceof TableChange.SetProperty property) {
        set(patched, property.property(), property.value());
      } else if (change instanceof TableChange.RemoveProperty property) {
        changeable(property.property()).remove(patched);
      } else if (change instanceof TableChange.ColumnChange column) {
        new ColumnChanges(patched, held).apply(column);
      } else {
        throw TableDefinition.refused("ALTER TABLE " + inSql(change.getClass().getSimpleName())
            + "; allowed: SET and UNSET TBLPROPERTIES, ADD, DROP, RENAME and ALTER COLUMN, COMMENT ON TABLE");
      }
    }
    ObjectNode changed = patched.objectNode();
    Stream.concat(Stream.of("columns"), Arrays.stream(TableProperty.values()).map(TableProperty::field)).forEach(field -> {
      if (!patched.path(field).equals(spec.path(field))) {
        changed.set(field, patched.path(field));
      }
    });
    return changed;
  }

  /**
   * Refuses a new NOT NULL column for a table with rows, which would hold NULL in it. The operator refuses it, too, in terms of
   * the spec.
   *
   * @throws ColocationException (unchecked)
   */
  private static void requireValues(JsonNode object, TableChange... changes) {
    if (Json.isAbsent(object.path("status").path("snapshot"))) {
      return;
    }
    for (TableChange change : changes) {
      if (change instanceof TableChange.AddColumn column && !column.isNullable()) {
        throw TableDefinition.refused("ADD COLUMN " + String.join(".", column.fieldNames()) + " … NOT NULL; rows that are there have no "
            + "value for it: leave NOT NULL out");
      }
    }
  }

  /** Turns the name of a Spark class such as {@code ClusterBy} into words of SQL. Every version of Spark adds classes. */
  static String inSql(String className) {
    return className.replaceAll("(?<=[a-z])(?=[A-Z])", " ").toUpperCase(Locale.ROOT);
  }

  /** A pipeline sets all properties of its table again in each run. */
  private static void set(ObjectNode spec, String key, String value) {
    boolean isSame = TableProperty.of(key).filter(TableProperty.OF_LAYOUT::contains)
        .filter(layout -> layout.normalized(value).equalsIgnoreCase(TableProperty.givenBy(spec).get(layout.key()))).isPresent();
    if (key.equals(TableCatalog.PROP_PROVIDER)) {
      TableDefinition.setProperty(spec, key, value);
    } else if (!isSame) {
      changeable(key).set(spec, value);
    }
  }

  private static TableProperty changeable(String key) {
    if (TableProperty.of(key).filter(TableProperty.OF_LAYOUT::contains).isPresent()) {
      throw TableDefinition.refused("ALTER TABLE of property '" + key + "', since files are laid out as they were written; "
          + "use CREATE OR REPLACE TABLE with CLUSTERED BY, SORTED BY and a query of all rows");
    }
    if (key.equals(TableCatalog.PROP_LOCATION)) {
      throw TableDefinition.refused("ALTER TABLE SET LOCATION; nodes keep the files, in folders of the table's name");
    }
    return TableProperty.of(key).orElseThrow(() -> TableDefinition.refused(
        "ALTER TABLE of property '" + key + "'; allowed: " + TableProperty.names(true)));
  }

  /**
   * The fields of the spec that a REPLACE TABLE changes. Everything that the statement leaves out stays: properties, and without
   * CLUSTERED BY the layout; a column of the same name and type keeps its other fields.
   */
  static ObjectNode replacement(JsonNode spec, ObjectNode wanted) {
    ObjectNode replaced = wanted.deepCopy();
    ArrayNode columns = replaced.putArray("columns");
    wanted.path("columns").forEach(column -> columns.add(successor(spec, column)));
    ColumnChanges.storeApart(columns);
    requireOwnNames(spec, replaced);
    ObjectNode changed = wanted.objectNode();
    replaced.properties().forEach(field -> {
      JsonNode before = spec.path(field.getKey());
      boolean isSame = field.getValue().equals(before) || field.getValue().isEmpty() && before.isMissingNode()
          && field.getValue().isArray();
      if (!isSame) {
        changed.set(field.getKey(), field.getValue());
      }
    });
    return changed;
  }

  /** Layouts use names of columns, so the operator refuses a layout by a column that has another name in files. */
  private static void requireOwnNames(JsonNode spec, JsonNode replaced) {
    for (String layout : ColumnChanges.LAYOUTS) {
      List<String> names = Json.texts(replaced.has(layout) ? replaced.path(layout) : spec.path(layout));
      for (JsonNode column : replaced.path("columns")) {
        String name = column.path("name").asText();
        String stored = column.path("storedAs").asText("");
        if (!stored.isEmpty() && names.stream().anyMatch(name::equalsIgnoreCase)) {
          throw TableDefinition.refused("REPLACE TABLE with column " + name + " in " + layout + ", since files hold it as "
              + stored + " after RENAME COLUMN: give it another name in the query (AS)");
        }
      }
    }
  }

  private static JsonNode successor(JsonNode spec, JsonNode wanted) {
    for (JsonNode column : spec.path("columns")) {
      if (column.path("name").asText().equalsIgnoreCase(wanted.path("name").asText())
          && TypeNames.areEqual(column.path("type").asText(), wanted.path("type").asText())) {
        ObjectNode kept = column.deepCopy();
        if (wanted.has("comment")) {
          kept.set("comment", wanted.path("comment"));
        }
        return wanted.path("nullable").asBoolean(true) ? kept : kept.put("nullable", false);
      }
      if (column.path("name").equals(wanted.path("name"))) {
        throw TableDefinition.refused("REPLACE TABLE with column " + column.path("name").asText() + " as "
            + wanted.path("type").asText() + ", since older snapshots hold it as " + column.path("type").asText()
            + ": give it another name, or use CREATE TABLE … AS SELECT, a table of another name");
      }
    }
    return wanted;
  }

  /**
   * The former values of a change's fields; null removes a field that was added. Fields that another client has changed since are
   * left out, and so are columns and layout once others have committed files that may depend on them.
   *
   * @param now the present object
   */
  static ObjectNode undo(TableWriter.Changed change, JsonNode now) {
    JsonNode before = change.before();
    boolean hasNewFiles = !now.path("status").path("snapshot").equals(before.path("status").path("snapshot"));
    ObjectNode undo = change.patch().objectNode();
    change.patch().fieldNames().forEachRemaining(field -> {
      boolean isOurs = now.path("spec").path(field).equals(change.after().path("spec").path(field));
      if (isOurs && !(hasNewFiles && saysHowFilesAre(field))) {
        undo.set(field, before.path("spec").get(field)); // null where there was none
      }
    });
    return undo;
  }

  private static boolean saysHowFilesAre(String field) {
    return field.equals("columns") || ColumnChanges.LAYOUTS.contains(field);
  }
}
