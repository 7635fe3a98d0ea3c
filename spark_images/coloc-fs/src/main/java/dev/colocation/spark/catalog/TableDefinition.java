package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Names;
import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.cluster.TypeNames;
import dev.colocation.spark.cluster.Types;
import dev.colocation.spark.fs.Manifest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.UserDefinedType;

/** Converts {@code CREATE TABLE} into a ColocatedTable's spec, which the API server and the operator check, and back. */
final class TableDefinition {
  private static final String STORED_AS = "hive.stored-as";
  private static final String OPTION = TableCatalog.OPTION_PREFIX;

  private static final String BUCKETS = "give CLUSTERED BY (<columns>) INTO <n> BUCKETS, or of a DataFrame "
      + "write.bucketBy(<n>, <columns>) or writeTo(…).partitionedBy(bucket(<n>, <column>))";

  private static final String WITHOUT_KEY = "it has no bucket key, by which rows are distributed; " + BUCKETS
      + "; where there is no word for it, as in pipelines, property 'clustered_by' = '<columns>'";

  /** Properties that Spark itself adds to each table. */
  private static final Set<String> SPARKS_OWN = Set.of(TableCatalog.PROP_OWNER, TableCatalog.PROP_IS_MANAGED_LOCATION);

  private static final ObjectMapper JSON = new ObjectMapper();

  private TableDefinition() {}

  /**
   * The spec of a CREATE TABLE.
   *
   * @param name as SQL writes it
   * @param namespace as SQL writes it, with the catalog
   * @throws ColocationException (unchecked) for what a ColocatedTable cannot be
   */
  static ObjectNode spec(
      String name, String namespace, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    ObjectNode spec = replacement(columns, partitions, properties);
    if (!spec.has("bucketedBy")) {
      // A misspelt table of saveAsTable, writeTo or toTable is a new one to Spark.
      throw refused(name + " would be a new table, and " + WITHOUT_KEY + "; if a table that exists was meant, SHOW TABLES IN "
          + namespace + " lists those that there are");
    }
    if (spec.path("colocateWith").asText("").isEmpty() && !spec.has("replicas")) {
      throw refused("it names neither a group nor a number of replicas: give 'colocate_with' = '<group>', or 'replication_num' = "
          + "'2' for a table in no group, in TBLPROPERTIES (…), or of a DataFrame by write.option(…) or writeTo(…).tableProperty(…)");
    }
    return spec;
  }

  /**
   * The spec of a REPLACE TABLE. Without PARTITIONED BY and CLUSTERED BY it has no layout fields.
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
    boolean hasKey = TableProperty.CLUSTERED_BY.isIn(properties);
    if (partitions.length > 0 || hasKey) {
      layOut(spec, partitions);
    }
    refuseTwice(spec, properties);
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
    if (spec.has("partitionedBy") && !spec.has("bucketedBy")) {
      throw refused(WITHOUT_KEY);
    }
    return spec;
  }

  /** Refuses a layout of which clauses and properties give the same part, and a number of buckets without their key. */
  private static void refuseTwice(ObjectNode spec, Map<String, String> properties) {
    for (TableProperty property : TableProperty.OF_LAYOUT) {
      JsonNode given = spec.path(property.field());
      if (property.isIn(properties) && (given.isNumber() || !given.isEmpty())) {
        throw refused("both " + (property == TableProperty.SORTED_BY ? "SORTED BY" : "CLUSTERED BY") + " and property '"
            + property.key() + "'; give one of them");
      }
    }
    if (TableProperty.BUCKETS.isIn(properties) && !TableProperty.CLUSTERED_BY.isIn(properties)) {
      throw refused("property 'buckets' without property 'clustered_by'; give both, or CLUSTERED BY (<columns>) INTO <n> BUCKETS");
    }
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
        case "cluster_by" -> throw refused("CLUSTER BY, clusterBy or cluster_by; " + BUCKETS + "; of a pipeline's table, "
            + "table_properties={'clustered_by': '<columns>'}");
        default -> throw refused("PARTITIONED BY takes columns only, not " + transform.describe());
      }
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

  static RuntimeException refused(String what) {
    return ColocationException.notPossible(what);
  }

  /** {@code SHOW CREATE TABLE}: the statement that makes a table of this definition, without its rows. */
  static final class ShownTable {
    private ShownTable() {}

    /** {@code name}: as the statement names the table. */
    static String statement(String name, LoadedTable table) {
      TableLayout layout = table.shape().layout();
      ColocatedTable object = table.object();
      StringBuilder text = new StringBuilder("CREATE TABLE ").append(name).append(" (\n  ");
      text.append(layout.partitionsLast()
          .map(column -> column(column, object.comments())).collect(Collectors.joining(",\n  "))).append(")\nUSING parquet\n");
      if (!layout.partitionedBy().isEmpty()) {
        text.append("PARTITIONED BY ").append(names(layout.partitionedBy())).append('\n');
      }
      text.append("CLUSTERED BY ").append(names(layout.bucketedBy()));
      if (!layout.sortedBy().equals(layout.bucketedBy())) {
        text.append(" SORTED BY ").append(names(layout.sortedBy()));
      }
      text.append(" INTO ").append(table.shape().buckets().ofTable()).append(" BUCKETS\n");
      Map<String, String> properties = new TreeMap<>(TableProperty.givenBy(object.spec()));
      TableProperty.OF_LAYOUT.forEach(property -> properties.remove(property.key()));
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

  /**
   * A column of {@code CREATE TABLE} or {@code ADD COLUMN}.
   *
   * @param comment null = none
   * @param isPlain its values are those that rows bring along
   */
  record ColumnDefinition(String name, DataType type, boolean nullable, String comment, boolean isPlain) {
    private static final ObjectMapper JSON = new ObjectMapper();

    /**
     * As a spec has it.
     *
     * @throws ColocationException (unchecked) for what no column can be
     */
    ObjectNode toSpec() {
      if (!isPlain) {
        throw TableDefinition.refused("column " + name + " has a DEFAULT, GENERATED or IDENTITY value; columns have no values but "
            + "those of their rows: leave it out, and write the value with each row");
      }
      requireFileTypes(type);
      requireNullsWithin(type);
      ObjectNode column =
          JSON.createObjectNode().put("name", name).put("type", typeName()).put("nullable", nullable);
      return comment == null || comment.isEmpty() ? column : column.put("comment", comment);
    }

    /** Spark's short form writes names of fields without back quotes, whatever is in them, and no comments of fields. */
    private String typeName() {
      String brief = type.catalogString();
      if (hasComments(type)) {
        return type.sql();
      }
      try {
        return Types.declared(brief).catalogString().equals(brief) ? brief : type.sql();
      } catch (Exception unreadable) {
        return type.sql();
      }
    }

    private static boolean hasComments(DataType part) {
      return part instanceof StructType struct && Arrays.stream(struct.fields()).anyMatch(field -> field.getComment().isDefined())
          || parts(part).anyMatch(ColumnDefinition::hasComments);
    }

    private void requireFileTypes(DataType part) {
      if (part instanceof UserDefinedType<?> own) {
        throw TableDefinition.refused("column " + name + " has the user-defined type " + nameOf(own) + ", which files would hold as "
            + "a plain " + own.sqlType().sql() + "; give its parts as columns of Spark's types, and make the values again in queries. "
            + "A vector is an array: vector_to_array(" + name + "), array_to_vector(" + name + ")");
      }
      if (!(part instanceof ArrayType || part instanceof MapType || part instanceof StructType)
          && !TypeNames.isAllowed(part.catalogString())) {
        throw TableDefinition.refused("column " + name + " has type '" + type.catalogString() + "'; allowed: "
            + TypeNames.ALLOWED + "; use one of these");
      }
      parts(part).forEach(this::requireFileTypes);
    }

    /** Of a type that Python defines, the class there. */
    private static String nameOf(UserDefinedType<?> own) {
      return own.pyUDT() == null ? own.getClass().getName() : own.pyUDT();
    }

    /** The spec's types have no field for it. */
    private void requireNullsWithin(DataType part) {
      if (part instanceof StructType struct) {
        for (StructField field : struct.fields()) {
          if (!field.nullable()) {
            throw TableDefinition.refused("field " + field.name() + " of column " + name + " is NOT NULL; only whole columns can: leave "
                + "it out, or CAST to " + type.catalogString());
          }
        }
      }
      parts(part).forEach(this::requireNullsWithin);
    }

    private static Stream<DataType> parts(DataType type) {
      if (type instanceof ArrayType array) {
        return Stream.of(array.elementType());
      }
      if (type instanceof MapType map) {
        return Stream.of(map.keyType(), map.valueType());
      }
      return type instanceof StructType struct ? Arrays.stream(struct.fields()).map(StructField::dataType) : Stream.empty();
    }
  }
}
