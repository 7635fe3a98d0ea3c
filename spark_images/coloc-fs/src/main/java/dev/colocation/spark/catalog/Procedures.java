package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.Names;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.explain.Explanation;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.write.Change;
import dev.colocation.spark.write.Change.DropPartitions;
import dev.colocation.spark.write.Change.RollBack;
import dev.colocation.spark.write.Compaction;
import dev.colocation.spark.write.Transaction;
import dev.colocation.spark.write.Transaction.CommitResult;
import dev.colocation.spark.write.WriteResult;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Operations without a statement in SQL: {@code CALL <catalog>.system.compact(table => 'shop.orders')} and the like. Tables are
 * named as in statements, without the catalog; partitions as an array of maps from columns to values as texts ({@link
 * PartitionValue}), which may leave out columns.
 */
final class Procedures {
  private static final String SCHEMA = "system";
  private static final String COMPACT = "compact";
  private static final String DROP_PARTITIONS = "drop_partitions";
  private static final String EXPLAIN = "explain";
  private static final String REBUCKET = "rebucket";
  private static final String ROLL_BACK = "roll_back";
  private static final String WRITE_RESULT = "write_result";
  private static final List<String> NAMES = List.of(COMPACT, DROP_PARTITIONS, EXPLAIN, REBUCKET, ROLL_BACK, WRITE_RESULT);

  private static final String ROWS = "rows";
  private static final String JSON = "json";
  /** Of explanations: a row per verdict; one row for programs; one row for people. */
  private static final List<String> FORMATS = List.of(ROWS, JSON, "text");
  private static final StructType VERDICTS = new StructType().add("operator", DataTypes.StringType, false)
      .add("colocate", DataTypes.BooleanType, false).add("reason", DataTypes.StringType, false);

  private final String catalog;
  private final Supplier<String[]> currentNamespace;
  private final Tables tables;

  /** Finds tables at their newest snapshot, and changes their definitions. */
  interface Tables {
    ColocationTable newest(Identifier identifier) throws NoSuchTableException;

    TableWriter writer();
  }

  Procedures(String catalog, Supplier<String[]> currentNamespace, Tables tables) {
    this.catalog = catalog;
    this.currentNamespace = currentNamespace;
    this.tables = tables;
  }

  static Identifier[] list(String[] namespace) {
    return Arrays.equals(namespace, new String[] {SCHEMA}) || namespace.length == 0
        ? NAMES.stream().map(name -> Identifier.of(new String[] {SCHEMA}, name)).toArray(Identifier[]::new)
        : new Identifier[0];
  }

  UnboundProcedure find(Identifier identifier) {
    String name = identifier.name().toLowerCase(Locale.ROOT);
    if (identifier.namespace().length != 1 || !identifier.namespace()[0].equalsIgnoreCase(SCHEMA) || !NAMES.contains(name)) {
      throw new ColocationException("there is no procedure " + Names.quoted(catalog, identifier) + "; allowed: "
          + NAMES.stream().map(known -> catalog + "." + SCHEMA + "." + known).collect(Collectors.joining(", "))).unchecked();
    }
    return switch (name) {
      case COMPACT -> new TableProcedure(
          name, "merges the files of each bucket and partition", List.of(table(), partitions("NULL")), this::compact);
      case DROP_PARTITIONS -> new TableProcedure(
          name, "drops partitions with all their rows", List.of(table(), partitions(null)), this::dropPartitions);
      case EXPLAIN -> new TableProcedure(
          name, "whether a statement's joins, group-bys and windows shuffle, and why; nothing is run",
          List.of(ProcedureParameter.in("statement", DataTypes.StringType).build(),
              ProcedureParameter.in("format", DataTypes.StringType).defaultValue("'rows'").build()),
          Procedures::explain);
      case REBUCKET -> new TableProcedure(
          name, "writes all rows again for another number of buckets, a multiple of the group's",
          List.of(table(), ProcedureParameter.in("buckets", DataTypes.IntegerType).build()), this::rebucket);
      case ROLL_BACK -> new TableProcedure(
          name, "makes the rows of an older snapshot the table's again",
          List.of(table(), ProcedureParameter.in("snapshot_id", DataTypes.LongType).build()), this::rollBack);
      default -> new TableProcedure(
          name, "what a write of this application did that was given an id (option write-id), as JSON",
          List.of(ProcedureParameter.in("id", DataTypes.StringType).build()), Procedures::writeResult);
    };
  }

  private static ProcedureParameter table() {
    return ProcedureParameter.in("table", DataTypes.StringType).build();
  }

  private static ProcedureParameter partitions(String otherwise) {
    ProcedureParameter.Builder builder = ProcedureParameter.in("partitions",
        DataTypes.createArrayType(DataTypes.createMapType(DataTypes.StringType, DataTypes.StringType)));
    return (otherwise == null ? builder : builder.defaultValue(otherwise)).build();
  }

  // What they do

  private TableProcedure.Result compact(InternalRow input) throws Exception {
    ColocationTable table = table(input);
    Compaction.Result done = TableCompaction.run(table, 1, partitions(table, input));
    StructType schema = counts("partitions", "files_before", "files_after", "rows", "bytes", "snapshot_id", "replicas_missing");
    return new TableProcedure.Result(schema, done.partitions(), done.filesBefore(), done.filesAfter(), done.rows(),
        done.bytes(), done.snapshotId(), (long) done.replicasMissing());
  }

  /** A partition that is not there is no error, so that it can be repeated. */
  private TableProcedure.Result dropPartitions(InternalRow input) throws Exception {
    ColocationTable table = table(input);
    List<Map<String, String>> partitions = partitions(table, input);
    if (partitions.isEmpty()) {
      throw new ColocationException("no partition is given; to drop all rows: TRUNCATE TABLE " + table.name()).unchecked();
    }
    Optional<Snapshot> snapshot = table.loaded().snapshot();
    if (snapshot.isEmpty()) {
      return dropped(List.of(), 0);
    }
    Transaction transaction = table.target().begin();
    if (transaction.files(snapshot.get().manifestSha256()).stream().noneMatch(file -> Change.isIn(file, partitions))) {
      return dropped(List.of(), snapshot.get().id());
    }
    CommitResult done =
        transaction.commit(table.name(), new DropPartitions(partitions), List.of(), Optional.empty());
    return dropped(done.removed(), done.snapshotId());
  }

  /** To the present number is no error, so that it can be repeated. */
  private TableProcedure.Result rebucket(InternalRow input) throws Exception {
    if (input.isNullAt(1)) {
      throw new ColocationException("buckets is NULL; give a number").unchecked();
    }
    TableRebucketing.Result done = TableRebucketing.run(() -> table(input), input.getInt(1), tables.writer());
    StructType schema = counts(
        "buckets_before", "buckets", "files_before", "files_after", "rows", "bytes", "snapshot_id", "replicas_missing");
    return new TableProcedure.Result(schema, (long) done.bucketsBefore(), (long) done.buckets(), done.filesBefore(),
        done.filesAfter(), done.rows(), done.bytes(), done.snapshotId(), (long) done.replicasMissing());
  }

  /** To the present snapshot is no error, so that it can be repeated. */
  private TableProcedure.Result rollBack(InternalRow input) throws Exception {
    ColocationTable table = table(input);
    if (input.isNullAt(1)) {
      throw new ColocationException("snapshot_id is NULL; give a number").unchecked();
    }
    long wanted = input.getLong(1);
    StructType answer = counts("rows", "snapshot_id");
    long rows = table.loaded().object().ofVersion(String.valueOf(wanted)).rows();
    if (table.loaded().snapshot().filter(present -> present.id() == wanted).isPresent()) {
      return new TableProcedure.Result(answer, rows, wanted);
    }
    Transaction transaction = table.target().begin();
    RollBack change = transaction.backTo(wanted);
    CommitResult done =
        transaction.commit(table.name(), change, transaction.present(change.files()), Optional.empty());
    return new TableProcedure.Result(answer, rows, done.snapshotId());
  }

  private static TableProcedure.Result dropped(List<DataFile> files, long snapshotId) {
    return new TableProcedure.Result(counts("partitions", "files", "rows", "snapshot_id"),
        files.stream().map(DataFile::partition).distinct().count(), (long) files.size(),
        files.stream().mapToLong(DataFile::rows).sum(), snapshotId);
  }

  private static TableProcedure.Result explain(InternalRow input) throws Exception {
    String statement = text(input, 0, "statement");
    String format = text(input, 1, "format");
    if (!FORMATS.contains(format)) {
      throw new ColocationException("format '" + format + "'; allowed: " + String.join(", ", FORMATS)).unchecked();
    }
    Explanation found = Explanation.of(SparkSession.active(), statement);
    if (!format.equals(ROWS)) {
      return new TableProcedure.Result(new StructType().add(format, DataTypes.StringType, false),
          UTF8String.fromString(format.equals(JSON) ? found.json() : found.text()));
    }
    return new TableProcedure.Result(VERDICTS, found.rows().stream().map(row -> new GenericInternalRow(new Object[] {
        UTF8String.fromString(row.operator()), row.colocate(), UTF8String.fromString(row.reason())})).toArray(InternalRow[]::new));
  }

  private static TableProcedure.Result writeResult(InternalRow input) {
    String id = text(input, 0, "id");
    WriteResult found = WriteResult.find(id).orElseThrow(() -> new ColocationException("no write of this application has id '"
        + id + "'; give it as option write-id, and ask the same application soon").unchecked());
    return new TableProcedure.Result(
        new StructType().add("result", DataTypes.StringType, false), CatalystTypeConverters.convertToCatalyst(found.toJson()));
  }

  private static StructType counts(String... names) {
    StructType schema = new StructType();
    for (String name : names) {
      schema = schema.add(name, DataTypes.LongType, false);
    }
    return schema;
  }

  // What they are given

  private static String text(InternalRow input, int place, String parameter) {
    if (input.isNullAt(place)) {
      throw new ColocationException(parameter + " is NULL; give a text").unchecked();
    }
    return input.get(place, DataTypes.StringType).toString();
  }

  private ColocationTable table(InternalRow input) throws Exception {
    SparkSession session = SparkSession.active();
    String given = text(input, 0, "table");
    List<String> parts =
        new ArrayList<>(CollectionConverters.asJava(session.sessionState().sqlParser().parseMultipartIdentifier(given)));
    if (parts.size() > 2 && parts.get(0).equals(catalog)) {
      parts.remove(0);
    }
    String[] namespace = parts.size() == 1 ? currentNamespace.get() : parts.subList(0, parts.size() - 1).toArray(String[]::new);
    if (namespace.length != 1) {
      throw new ColocationException("table '" + given + "'; give it as <namespace>.<table>").unchecked();
    }
    return tables.newest(Identifier.of(namespace, parts.get(parts.size() - 1)));
  }

  /** Partitions as a manifest names them: stored names of columns, texts of values, null is NULL. */
  private static List<Map<String, String>> partitions(ColocationTable table, InternalRow input) {
    List<Map<String, String>> chosen = new ArrayList<>();
    if (!input.isNullAt(1)) {
      ArrayData given = input.getArray(1);
      for (int index = 0; index < given.numElements(); index++) {
        chosen.add(partition(table, given.getMap(index)));
      }
    }
    return chosen;
  }

  private static Map<String, String> partition(ColocationTable table, MapData given) {
    List<String> columns = table.layout().partitionedBy();
    Map<String, String> values = new TreeMap<>();
    for (int index = 0; index < given.numElements(); index++) {
      String name = given.keyArray().get(index, DataTypes.StringType).toString();
      Manifest.Column column = table.layout().column(partitionColumn(name, columns));
      Object value = given.valueArray().isNullAt(index) ? "" : given.valueArray().get(index, DataTypes.StringType);
      values.put(column.storedName(), PartitionValue.text(column, value.toString(), SQLConf.get().sessionLocalTimeZone()));
    }
    if (values.isEmpty()) {
      throw unknownColumn("it names no column", columns);
    }
    return values;
  }

  /** The partition column of this name. As Python's {@code partition_column}. */
  static String partitionColumn(String name, List<String> columns) {
    return columns.stream().filter(name::equalsIgnoreCase).findFirst()
        .orElseThrow(() -> unknownColumn("'" + name + "' is no partition column", columns));
  }

  private static RuntimeException unknownColumn(String what, List<String> columns) {
    return new ColocationException("partition: " + what + "; " + (columns.isEmpty()
        ? "the table has no partitions: leave them out, or change its rows by DELETE"
        : "the table is partitioned by (" + String.join(", ", columns) + "): give values of these")).unchecked();
  }

  /**
   * A procedure that answers with one row, or several.
   *
   * @param given its parameters, in order
   */
  record TableProcedure(String name, String description, List<ProcedureParameter> given, Body body)
      implements UnboundProcedure, BoundProcedure {

    /** What it does. */
    interface Body {
      Result call(InternalRow input) throws Exception;
    }

    /** Its rows. */
    record Result(StructType readSchema, InternalRow[] rows) implements LocalScan {
      Result(StructType schema, Object... values) {
        this(schema, new InternalRow[] {new GenericInternalRow(values)});
      }
    }

    @Override
    public BoundProcedure bind(StructType input) {
      return this;
    }

    @Override
    public ProcedureParameter[] parameters() {
      return given.toArray(ProcedureParameter[]::new);
    }

    @Override
    public boolean isDeterministic() {
      return false;
    }

    /** Errors keep their messages: Spark's callers are in Scala, which has no checked exceptions. */
    @Override
    public Iterator<Scan> call(InternalRow input) {
      try {
        return List.<Scan>of(body.call(input)).iterator();
      } catch (Exception error) {
        throw ColocationException.unchecked(error);
      }
    }
  }
}
