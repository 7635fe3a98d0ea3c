package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.Names;
import dev.colocation.spark.cluster.TableObject;
import dev.colocation.spark.cluster.TableProperty;
import dev.colocation.spark.cluster.Types;
import dev.colocation.spark.fs.Manifest;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/** {@code SHOW CREATE TABLE}: the statement that makes a table of this definition, without its rows. */
final class ShownTable {
  private ShownTable() {}

  /** {@code name}: as the statement names the table. */
  static String statement(String name, LoadedTable table) {
    LoadedTable.Shape shape = table.shape();
    TableObject object = table.object();
    StringBuilder text = new StringBuilder("CREATE TABLE ").append(name).append(" (\n  ");
    text.append(TableObject.partitionsLast(shape.columns(), shape.partitionedBy())
        .map(column -> column(column, object.comments())).collect(Collectors.joining(",\n  "))).append(")\nUSING parquet\n");
    if (!shape.partitionedBy().isEmpty()) {
      text.append("PARTITIONED BY ").append(names(shape.partitionedBy())).append('\n');
    }
    text.append("CLUSTERED BY ").append(names(shape.bucketedBy()));
    if (!shape.sortedBy().equals(shape.bucketedBy())) {
      text.append(" SORTED BY ").append(names(shape.sortedBy()));
    }
    text.append(" INTO ").append(shape.buckets()).append(" BUCKETS\n");
    Map<String, String> properties = new TreeMap<>(object.properties());
    properties.remove(TableProperty.SORTED_BY.key());
    String comment = properties.remove(TableCatalog.PROP_COMMENT);
    if (comment != null) {
      text.append("COMMENT ").append(literal(comment)).append('\n');
    }
    if (!properties.isEmpty()) {
      text.append("TBLPROPERTIES (\n  ").append(properties.entrySet().stream()
          .map(property -> literal(property.getKey()) + " = " + literal(property.getValue()))
          .collect(Collectors.joining(",\n  "))).append(")\n");
    }
    return text.toString();
  }

  private static String column(Manifest.Column column, Map<String, String> comments) {
    String comment = comments.get(Names.lowerCase(column.name()));
    return Names.quoted(column.name()) + " " + Types.declared(column.type()).sql() + (column.nullable() ? "" : " NOT NULL")
        + (comment == null ? "" : " COMMENT " + literal(comment));
  }

  private static String names(List<String> columns) {
    return columns.stream().map(Names::quoted).collect(Collectors.joining(", ", "(", ")"));
  }

  private static String literal(String text) {
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'";
  }
}
