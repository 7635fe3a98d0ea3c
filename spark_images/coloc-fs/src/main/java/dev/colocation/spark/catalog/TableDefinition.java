package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
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
  private static final String COLOCATE_WITH = "colocate_with";
  private static final String REPLICATION_NUM = "replication_num";
  static final String SORTED_BY = "sorted_by";
  private static final String RECYCLE_AFTER_SECONDS = "recycle_after_seconds";
  private static final String PROPERTIES =
      String.join(", ", COLOCATE_WITH, REPLICATION_NUM, SORTED_BY, RECYCLE_AFTER_SECONDS);
  private static final String STORED_AS = "hive.stored-as";

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
      boolean isPlain = column.defaultValue() == null && column.generationExpression() == null
          && column.identityColumnSpec() == null;
      specColumns.add(column(column.name(), column.dataType(), column.nullable(), isPlain));
    }
    if (partitions.length > 0) {
      layOut(spec, partitions);
    }
    if (properties.containsKey(SORTED_BY) && !spec.path("sortedBy").isEmpty()) {
      throw refused("both SORTED BY and property '" + SORTED_BY + "'; give one of them");
    }
    properties.forEach((key, value) -> setProperty(spec, key, value));
    return spec;
  }

  /** A column; {@code isPlain}: its values are those that rows bring along. */
  static ObjectNode column(String name, DataType type, boolean nullable, boolean isPlain) {
    if (!isPlain) {
      throw valueRefused(name);
    }
    if (!TypeNames.isAllowed(type.catalogString())) {
      throw refused("column " + name + " has type '" + type.catalogString() + "'; allowed: " + TypeNames.ALLOWED
          + "; give it one of these");
    }
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

  /** A property or clause of CREATE or ALTER TABLE; properties are named as Doris does. */
  static void setProperty(ObjectNode spec, String key, String value) {
    switch (key) {
      case COLOCATE_WITH -> spec.put("colocateWith", value);
      case REPLICATION_NUM -> spec.put("replicas", (int) wholeNumber(key, value, 4));
      case RECYCLE_AFTER_SECONDS -> spec.put("recycleAfterSeconds", wholeNumber(key, value, 12));
      case SORTED_BY -> {
        ArrayNode columns = spec.putArray("sortedBy");
        Arrays.stream(value.split(",")).map(String::strip).filter(column -> !column.isEmpty()).forEach(columns::add);
      }
      case TableCatalog.PROP_PROVIDER -> requireParquet("USING", value);
      case STORED_AS -> requireParquet("STORED AS", value);
      case TableCatalog.PROP_EXTERNAL, TableCatalog.PROP_LOCATION -> throw refused(
          "EXTERNAL or LOCATION; nodes keep the files, in folders of the table's name: leave both out, and write the rows "
              + "with INSERT");
      default -> {
        if (!SPARKS_OWN.contains(key)) {
          throw refused("property or clause '" + key + "'; allowed: " + PROPERTIES + "; leave it out");
        }
      }
    }
  }

  /** A property as it is where nothing is said of it. */
  static void removeProperty(ObjectNode spec, String key) {
    switch (key) {
      case COLOCATE_WITH -> spec.put("colocateWith", "");
      case REPLICATION_NUM -> spec.putNull("replicas");
      case RECYCLE_AFTER_SECONDS -> spec.putNull("recycleAfterSeconds");
      default -> throw refused("UNSET of property '" + key + "'; allowed: " + PROPERTIES);
    }
  }

  private static long wholeNumber(String key, String value, int mostDigits) {
    if (!value.matches("[0-9]{1," + mostDigits + "}")) {
      throw refused(key + "='" + value + "'; allowed is a whole number");
    }
    return Long.parseLong(value);
  }

  private static void requireParquet(String clause, String format) {
    if (!format.equalsIgnoreCase("parquet")) {
      throw refused(clause + " " + format + "; files of a ColocatedTable are Parquet: leave " + clause + " out");
    }
  }

  static RuntimeException valueRefused(String column) {
    return refused("column " + column + " has a DEFAULT, GENERATED or IDENTITY value; columns have no values but those of "
        + "their rows: leave it out, and write the value with each row");
  }

  static RuntimeException refused(String what) {
    return new ColocationException("a ColocatedTable cannot be so: " + what).unchecked();
  }
}
