package dev.colocation.spark.catalog;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import dev.colocation.spark.cluster.ChangeCounts;
import dev.colocation.spark.cluster.ClusterView;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.RowCounts;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.Types;
import dev.colocation.spark.fs.KeyRange;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Function1;
import scala.Option;

/** The metadata tables {@code <table>.snapshots}, {@code <table>.partitions}, {@code <table>.files} and {@code <table>.replicas}. */
final class MetadataTables {
  static final List<String> NAMES = List.of("snapshots", "partitions", "files", "replicas");

  private static final DataType PARTITION = DataTypes.createMapType(DataTypes.StringType, DataTypes.StringType);

  // By types, not texts: what a text calls TIMESTAMP is a matter of the session that loads this class.
  private static final StructType SNAPSHOTS = new StructType()
      .add("snapshot_id", DataTypes.LongType).add("committed_at", DataTypes.TimestampType)
      .add("operation", DataTypes.StringType).add("rows", DataTypes.LongType).add("bytes", DataTypes.LongType)
      .add("files", DataTypes.LongType).add("idempotency_key", DataTypes.StringType).add("partitions", DataTypes.LongType)
      .add("is_current", DataTypes.BooleanType).add("manifest", DataTypes.StringType)
      .add("rows_inserted", DataTypes.LongType).add("rows_updated", DataTypes.LongType).add("rows_deleted", DataTypes.LongType)
      .add("files_added", DataTypes.LongType).add("files_removed", DataTypes.LongType);
  private static final StructType REPLICAS = new StructType()
      .add("bucket", DataTypes.IntegerType).add("node", DataTypes.StringType).add("state", DataTypes.StringType)
      .add("verified_at", DataTypes.TimestampType).add("agent", DataTypes.StringType).add("files", DataTypes.LongType)
      .add("bytes", DataTypes.LongType);
  private static final ArrayType KEY = DataTypes.createArrayType(DataTypes.StringType);
  private static final StructType FILES = new StructType()
      .add("partition", PARTITION).add("bucket", DataTypes.IntegerType).add("path", DataTypes.StringType)
      .add("rows", DataTypes.LongType).add("bytes", DataTypes.LongType).add("sha256", DataTypes.StringType)
      .add("first_key", KEY).add("last_key", KEY);
  private static final StructType PARTITIONS = new StructType()
      .add("partition", PARTITION).add("files", DataTypes.LongType).add("rows", DataTypes.LongType)
      .add("bytes", DataTypes.LongType);

  private MetadataTables() {}

  /** The metadata table of this name. */
  static MetadataTable find(LoadedTable table, String name) {
    String fullName = table.name() + "." + name;
    return switch (name) {
      case "snapshots" -> new MetadataTable(fullName, SNAPSHOTS, () -> snapshots(table));
      case "partitions" -> new MetadataTable(fullName, PARTITIONS, () -> partitions(table));
      case "files" -> new MetadataTable(fullName, FILES, () -> files(table));
      case "replicas" -> new MetadataTable(fullName, REPLICAS, () -> replicas(table));
      default -> throw new ColocationException(
          "there is no table " + fullName + "; metadata tables of " + table.name() + ": " + String.join(", ", NAMES))
          .unchecked();
    };
  }

  private static List<Row> snapshots(LoadedTable table) {
    ColocatedTable object = table.object();
    object.requireSnapshots();
    return object.snapshots().stream().map(snapshot -> snapshot(object, snapshot)).toList();
  }

  private static Row snapshot(ColocatedTable object, Snapshot snapshot) {
    ChangeCounts changed = snapshot.changed();
    return row(
        snapshot.id(), snapshot.committedAt(), snapshot.operation().isEmpty() ? null : snapshot.operation(), snapshot.rows(),
        snapshot.bytes(), snapshot.files(), object.commitKeys().get(snapshot.id()), snapshot.partitions(),
        object.snapshot().equals(Optional.of(snapshot)), snapshot.manifest(), changed.rows().map(RowCounts::inserted).orElse(null),
        changed.rows().map(RowCounts::updated).orElse(null), changed.rows().map(RowCounts::deleted).orElse(null),
        orNull(changed.filesAdded()), orNull(changed.filesRemoved()));
  }

  private static Long orNull(OptionalLong count) {
    return count.isPresent() ? count.getAsLong() : null;
  }

  private static List<Row> partitions(LoadedTable table) {
    return TablePartitions.of(table).stream()
        .map(found -> row(found.partition(), found.files(), found.rows(), found.bytes())).toList();
  }

  private static List<Row> files(LoadedTable table) {
    List<DataType> types = table.layout().sortedInFiles().stream()
        .map(name -> Types.parse(table.layout().column(name).type())).toList();
    List<Row> rows = new ArrayList<>();
    for (JsonNode file : TablePartitions.manifest(table).path("files")) {
      KeyRange keys = keys(file);
      rows.add(row(
          TablePartitions.partition(file), file.path("bucket").asInt(), file.path("path").asText(),
          file.path("rows").asLong(), file.path("bytes").asLong(), file.path("sha256").asText(),
          shown(keys.first(), types), shown(keys.last(), types)));
    }
    return rows;
  }

  private static KeyRange keys(JsonNode file) {
    try (JsonParser json = file.path("keyRange").traverse()) {
      json.nextToken();
      return KeyRange.read(json);
    } catch (IOException error) {
      throw new IllegalStateException("a tree is always JSON", error);
    }
  }

  /** A key's values as Spark shows them, timestamps in UTC; null when they are unknown. */
  private static List<String> shown(List<Object> key, List<DataType> types) {
    List<String> shown = new ArrayList<>();
    for (int column = 0; column < Math.min(key.size(), types.size()); column++) {
      shown.add(shown(key.get(column), types.get(column)));
    }
    return shown.isEmpty() ? null : shown;
  }

  private static String shown(Object value, DataType type) {
    if (!(value instanceof Long number)) {
      return (String) value;
    }
    if (type instanceof DecimalType decimal) {
      return Decimal.createUnsafe(number, decimal.precision(), decimal.scale()).toString();
    }
    boolean isTime = type == DataTypes.DateType || type == DataTypes.TimestampType || type == DataTypes.TimestampNTZType;
    return isTime ? time(type == DataTypes.DateType ? (Object) number.intValue() : number, type) : number.toString();
  }

  private static String time(Object value, DataType type) {
    return Cast$.MODULE$.apply(new Literal(value, type), DataTypes.StringType, Option.apply("UTC"), true)
        .eval(InternalRow.empty()).toString();
  }

  private static List<Row> replicas(LoadedTable table) {
    if (table.group().isEmpty()) {
      return List.of();
    }
    ClusterView.PlacingGroup group = table.group().get();
    Map<Integer, long[]> sizes = new LinkedHashMap<>();
    for (JsonNode file : TablePartitions.manifest(table).path("files")) {
      long[] size = sizes.computeIfAbsent(file.path("bucket").asInt(), absent -> new long[2]);
      size[0]++;
      size[1] += file.path("bytes").asLong();
    }
    List<Row> rows = new ArrayList<>();
    for (int bucket = 0; bucket < group.object().buckets().size(); bucket++) {
      long[] size = sizes.getOrDefault(bucket, new long[2]);
      for (String node : group.object().buckets().get(bucket)) {
        Optional<String> state = group.object().state(bucket, node);
        rows.add(row(
            bucket, node, state.orElse(null), state.flatMap(known -> group.lastSign()).orElse(null), group.agents().get(node),
            size[0], size[1]));
      }
    }
    return rows;
  }

  private static Row row(Object... values) {
    return RowFactory.create(values);
  }

  /**
   * A few rows about a table, made on the driver.
   *
   * @param rows with the values of the columns, in their order
   */
  record MetadataTable(String name, StructType rowType, Supplier<List<Row>> rows) implements SupportsRead {
    @Override
    public Column[] columns() {
      return Arrays.stream(rowType.fields())
          .map(field -> Column.create(field.name(), field.dataType()))
          .toArray(Column[]::new);
    }

    @Override
    @SuppressWarnings("deprecation") // Spark 4.0 asks for it
    public StructType schema() {
      return rowType;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      OptionsOfReads.take(name, options);
      Scan scan = new LocalScan() {
        @Override
        public StructType readSchema() {
          return rowType;
        }

        @Override
        public InternalRow[] rows() {
          Function1<Object, Object> internal = CatalystTypeConverters.createToCatalystConverter(rowType);
          return rows.get().stream().map(row -> (InternalRow) internal.apply(row)).toArray(InternalRow[]::new);
        }
      };
      return () -> scan;
    }
  }
}
