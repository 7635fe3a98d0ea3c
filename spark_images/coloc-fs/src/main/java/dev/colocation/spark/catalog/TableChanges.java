package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import org.apache.spark.sql.connector.catalog.TableChange;

/** {@code ALTER TABLE} as a change of a ColocatedTable's spec. Whether it fits is judged by the API server and the operator. */
final class TableChanges {
  private TableChanges() {}

  /** The fields of the spec that change, with their new values. */
  static ObjectNode patch(JsonNode spec, TableChange... changes) {
    ObjectNode patched = spec.deepCopy();
    for (TableChange change : changes) {
      if (change instanceof TableChange.SetProperty property) {
        requireChangeable(property.property());
        TableDefinition.setProperty(patched, property.property(), property.value());
      } else if (change instanceof TableChange.RemoveProperty property) {
        requireChangeable(property.property());
        TableDefinition.removeProperty(patched, property.property());
      } else if (change instanceof TableChange.AddColumn add) {
        ((ArrayNode) patched.path("columns")).add(TableDefinition.column(
            String.join(".", add.fieldNames()), add.dataType(), add.isNullable(), add.defaultValue() == null));
      } else if (change instanceof TableChange.UpdateColumnDefaultValue set) {
        throw TableDefinition.valueRefused(String.join(".", set.fieldNames()));
      } else if (change instanceof TableChange.RenameColumn rename) {
        rename(column(patched, String.join(".", rename.fieldNames())), rename.newName());
      } else {
        throw TableDefinition.refused("ALTER TABLE " + change.getClass().getSimpleName()
            + "; allowed: SET TBLPROPERTIES, ADD COLUMN, RENAME COLUMN");
      }
    }
    ObjectNode changed = patched.objectNode();
    for (String field : List.of("colocateWith", "replicas", "recycleAfterSeconds", "columns")) {
      if (!patched.path(field).equals(spec.path(field))) {
        changed.set(field, patched.path(field));
      }
    }
    return changed;
  }

  private static void requireChangeable(String property) {
    if (property.equals(TableDefinition.SORTED_BY)) {
      throw TableDefinition.refused("ALTER TABLE of property '" + property + "', since files are sorted as they were written; "
          + "use CREATE OR REPLACE TABLE with CLUSTERED BY, SORTED BY and a query of all rows");
    }
  }

  /**
   * The fields of the spec that a REPLACE TABLE changes. What it does not say stays as it is: properties, and without CLUSTERED BY
   * the layout; a column of the same name and type keeps what else is said of it.
   */
  static ObjectNode replacement(JsonNode spec, ObjectNode wanted) {
    ObjectNode replaced = wanted.deepCopy();
    ArrayNode columns = replaced.putArray("columns");
    wanted.path("columns").forEach(column -> columns.add(successor(spec, column)));
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

  private static JsonNode successor(JsonNode spec, JsonNode wanted) {
    for (JsonNode column : spec.path("columns")) {
      if (column.path("name").asText().equalsIgnoreCase(wanted.path("name").asText())
          && TypeNames.areEqual(column.path("type").asText(), wanted.path("type").asText())) {
        ObjectNode kept = column.deepCopy();
        return wanted.path("nullable").asBoolean(true) ? kept : kept.put("nullable", false);
      }
    }
    return wanted;
  }

  /** What these fields were before; null takes one away that was not there. */
  static ObjectNode undo(JsonNode spec, ObjectNode patch) {
    ObjectNode before = patch.objectNode();
    patch.fieldNames().forEachRemaining(
        field -> before.set(field, spec.has(field) ? spec.get(field) : patch.nullNode()));
    return before;
  }

  private static ObjectNode column(ObjectNode spec, String name) {
    for (JsonNode column : spec.path("columns")) {
      if (column.path("name").asText().equalsIgnoreCase(name)) {
        return (ObjectNode) column;
      }
    }
    throw TableDefinition.refused("there is no column " + name);
  }

  /** Files keep the column's first name. */
  private static void rename(ObjectNode column, String name) {
    if (column.path("storedAs").asText("").isEmpty()) {
      column.put("storedAs", column.path("name").asText());
    }
    if (column.path("storedAs").asText().equals(name)) {
      column.remove("storedAs");
    }
    column.put("name", name);
  }
}
