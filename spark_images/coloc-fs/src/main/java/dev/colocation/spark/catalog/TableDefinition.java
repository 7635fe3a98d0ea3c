package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.TableProperty;
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

/** {@code CREATE TABLE} as the spec of a ColocatedTable. What the spec says is judged by the API server and the operator. */
final class TableDefinition {
  private static final String STORED_AS = "hive.stored-as";
  private static final String OPTION = TableCatalog.OPTION_PREFIX;

  private static final String BUCKETS = "give CLUSTERED BY (<columns>) INTO <n> BUCKETS, or of a DataFrame "
      + "write.bucketBy(<n>, <columns>) or writeTo(…).partitionedBy(bucket(<n>, <column>))";

  /** What Spark itself says of each table. */
  private static final Set<String> SPARKS_OWN = Set.of(TableCatalog.PROP_OWNER, TableCatalog.PROP_IS_MANAGED_LOCATION);

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
      throw withoutBuckets();
    }
    if (spec.path("colocateWith").asText("").isEmpty() && !spec.has("replicas")) {
      throw refused("it names neither a group nor a number of replicas: give 'colocate_with' = '<group>', or 'replication_num' = "
          + "'2' for a table in no group, in TBLPROPERTIES (…), or of a DataFrame by write.option(…) or writeTo(…).tableProperty(…)");
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
      boolean isPlain = column.defaultValue() == null && column.generationExpression() == null
          && column.identityColumnSpec() == null;
      specColumns.add(new ColumnDefinition(
          column.name(), column.dataType(), column.nullable(), column.comment(), isPlain).toSpec());
    }
    if (partitions.length > 0) {
      layOut(spec, partitions);
    }
    String sortedBy = TableProperty.SORTED_BY.key();
    if (properties.containsKey(sortedBy) && !spec.path("sortedBy").isEmpty()) {
      throw refused("both SORTED BY and property '" + sortedBy + "'; give one of them");
    }
    properties.forEach((key, value) -> {
      boolean isOption = properties.containsKey(OPTION + key);
      if (isOption && TableProperty.of(key).isEmpty()) {
        throw refused("option '" + key + "'; " + allowed());
      }
      // Of OPTIONS (…) Spark makes two properties.
      if (!key.startsWith(OPTION) || !value.equals(properties.get(key.substring(OPTION.length())))) {
        setProperty(spec, key, value);
      }
    });
    return spec;
  }

  private static String allowed() {
    return "allowed: " + TableProperty.names(false) + "; leave it out";
  }

  private static void layOut(ObjectNode spec, Transform[] partitions) {
    ArrayNode partitionedBy = spec.putArray("partitionedBy");
    for (Transform transform : partitions) {
      switch (transform.name()) {
        case "identity" -> partitionedBy.add(name(transform.references()[0]));
        case "bucket", "sorted_bucket" -> setBuckets(spec, transform);
        case "cluster_by" -> throw refused("CLUSTER BY or clusterBy; " + BUCKETS);
        default -> throw refused("PARTITIONED BY takes columns only, not " + transform.describe());
      }
    }
    if (!spec.has("bucketedBy")) {
      throw withoutBuckets();
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

  /** A property or clause of CREATE TABLE. */
  static void setProperty(ObjectNode spec, String key, String value) {
    switch (key) {
      case TableCatalog.PROP_PROVIDER -> requireParquet("USING", value);
      case STORED_AS -> requireParquet("STORED AS", value);
      case TableCatalog.PROP_EXTERNAL, TableCatalog.PROP_LOCATION -> throw refused(
          "EXTERNAL, LOCATION or option path; nodes keep the files, in folders of the table's name: leave it out, and write "
              + "the rows with INSERT");
      default -> {
        if (!SPARKS_OWN.contains(key)) {
          TableProperty.of(key).orElseThrow(() -> refused("property or clause '" + key + "'; " + allowed())).set(spec, value);
        }
      }
    }
  }

  private static void requireParquet(String clause, String format) {
    if (!format.equalsIgnoreCase("parquet")) {
      throw refused(clause + " " + format + "; files of a ColocatedTable are Parquet: leave " + clause
          + " out, of a DataFrame format or using");
    }
  }

  private static RuntimeException withoutBuckets() {
    return refused("it has no bucket key, by which rows are distributed; " + BUCKETS + ". catalog.createTable and a stream's toTable "
        + "have no word for it: make the table by CREATE TABLE");
  }

  static RuntimeException refused(String what) {
    return ColocationException.notPossible(what);
  }
}
