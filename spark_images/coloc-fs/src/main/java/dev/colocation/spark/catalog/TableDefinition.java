package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataType;

/** {@code CREATE TABLE} as the spec of a ColocatedTable. What the spec says is judged by the API server and the operator. */
final class TableDefinition {
  static final String COLOCATE_WITH = "colocate_with";
  static final String REPLICATION_NUM = "replication_num";

  /** What Spark itself says of each table. */
  private static final Set<String> SPARKS_OWN =
      Set.of(TableCatalog.PROP_OWNER, TableCatalog.PROP_PROVIDER, TableCatalog.PROP_IS_MANAGED_LOCATION);

  private static final ObjectMapper JSON = new ObjectMapper();

  private TableDefinition() {}

  /**
   * The spec.
   *
   * @throws ColocationException (unchecked) for what a ColocatedTable cannot be
   */
  static ObjectNode spec(Column[] columns, Transform[] partitions, Map<String, String> properties) {
    ObjectNode spec = replacement(columns, partitions, properties);
    if (!spec.has("bucketedBy")) {
      throw refused("say how rows are distributed: CLUSTERED BY (<columns>) INTO <n> BUCKETS");
    }
    return spec;
  }

  /**
   * What a REPLACE TABLE says. Without PARTITIONED BY and CLUSTERED BY it has neither field.
   *
   * @throws ColocationException (unchecked) for what a ColocatedTable cannot be
   */
  static ObjectNode replacement(Column[] columns, Transform[] partitions, Map<String, String> properties) {
    ObjectNode spec = JSON.createObjectNode();
    ArrayNode specColumns = spec.putArray("columns");
    for (Column column : columns) {
      if (column.defaultValue() != null || column.generationExpression() != null) {
        throw refused("column " + column.name() + " has a default or generated value, which files cannot have");
      }
      specColumns.add(column(column.name(), column.dataType(), column.nullable()));
    }
    if (partitions.length > 0) {
      layOut(spec, partitions);
    }
    properties.forEach((key, value) -> setProperty(spec, key, value));
    return spec;
  }

  static ObjectNode column(String name, DataType type, boolean nullable) {
    return JSON.createObjectNode().put("name", name).put("type", type.catalogString()).put("nullable", nullable);
  }

  private static void layOut(ObjectNode spec, Transform[] partitions) {
    ArrayNode partitionedBy = spec.putArray("partitionedBy");
    for (Transform transform : partitions) {
      switch (transform.name()) {
        case "identity" -> partitionedBy.add(name(transform.references()[0]));
        case "bucket", "sorted_bucket" -> setBuckets(spec, transform);
        default -> throw refused("PARTITIONED BY takes columns only, not " + transform.describe());
      }
    }
    if (!spec.has("bucketedBy")) {
      throw refused("say how rows are distributed: CLUSTERED BY (<columns>) INTO <n> BUCKETS");
    }
    if (!spec.has("sortedBy")) {
      spec.putArray("sortedBy");
    }
  }

  /** {@code bucket(8, k)}, or {@code sorted_bucket(k, 8, s)}: sort columns come behind the number. */
  private static void setBuckets(ObjectNode spec, Transform transform) {
    List<String> before = new ArrayList<>();
    List<String> behind = new ArrayList<>();
    boolean isSorted = transform.name().equals("sorted_bucket");
    List<String> current = isSorted ? before : behind;
    for (Expression argument : transform.arguments()) {
      if (argument instanceof Literal<?> count) {
        spec.put("buckets", ((Number) count.value()).intValue());
        current = behind;
      } else if (argument instanceof NamedReference column) {
        current.add(name(column));
      }
    }
    (isSorted ? before : behind).forEach(spec.putArray("bucketedBy")::add);
    if (isSorted) {
      behind.forEach(spec.putArray("sortedBy")::add);
    }
  }

  private static String name(NamedReference column) {
    return String.join(".", column.fieldNames());
  }

  /** One of the properties that a ColocatedTable has, by the seeds' names. */
  static void setProperty(ObjectNode spec, String key, String value) {
    if (key.equals(COLOCATE_WITH)) {
      spec.put("colocateWith", value);
    } else if (key.equals(REPLICATION_NUM)) {
      if (!value.matches("[0-9]{1,4}")) {
        throw refused(REPLICATION_NUM + "='" + value + "'; allowed is a whole number");
      }
      spec.put("replicas", Integer.parseInt(value));
    } else if (key.equals(TableCatalog.PROP_PROVIDER) && !value.equalsIgnoreCase("parquet")) {
      throw refused("USING " + value + "; files of a ColocatedTable are Parquet: leave USING out");
    } else if (!SPARKS_OWN.contains(key)) {
      throw refused("property or clause '" + key + "'; allowed: " + COLOCATE_WITH + ", " + REPLICATION_NUM);
    }
  }

  static RuntimeException refused(String what) {
    return new ColocationException("a ColocatedTable cannot be so: " + what).unchecked();
  }
}
