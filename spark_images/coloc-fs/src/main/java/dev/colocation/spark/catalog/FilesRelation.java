package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.FileIndexes.ListedFiles;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.cluster.Types;
import dev.colocation.spark.fs.ColocPath;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.plan.FilePerTask;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.BucketSpec;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A table's files as a relation like that of Spark's own file tables: {@code CREATE TABLE … USING parquet PARTITIONED BY …
 * CLUSTERED BY … SORTED BY … INTO n BUCKETS} at the snapshot's location, without a table in any catalog.
 */
final class FilesRelation {
  private FilesRelation() {}

  /** The plan that replaces the catalog's table: the same columns with the same ids. */
  static LogicalPlan plan(LoadedTable table, FileIndexes indexes, DataSourceV2Relation replaced) {
    LogicalRelation stored = LogicalRelation$.MODULE$.apply(files(table, indexes), PlannedTable.of(table, storedSchema(table)));
    return shown(stored, CollectionConverters.asJava(replaced.output()));
  }

  /** The columns of a relation, with other names and ids. */
  private static LogicalPlan shown(LogicalRelation stored, List<AttributeReference> wanted) {
    List<AttributeReference> found = CollectionConverters.asJava(stored.output());
    Map<ExprId, Expression> shown = new HashMap<>();
    boolean renamed = false;
    for (int position = 0; position < found.size(); position++) {
      AttributeReference column = found.get(position).withMetadata(wanted.get(position).metadata());
      boolean isSame = column.name().equals(wanted.get(position).name());
      shown.put(column.exprId(), isSame ? column.withExprId(wanted.get(position).exprId()) : column);
      renamed |= !isSame;
    }
    LogicalPlan relation = stored.mapExpressions(
        expression -> expression instanceof AttributeReference column ? shown.getOrDefault(column.exprId(), column) : expression);
    return renamed ? renamed(relation, wanted) : relation;
  }

  /**
   * The same columns of another snapshot.
   *
   * @param read the relation of a snapshot of the table
   * @throws ColocationException (unchecked) when that snapshot has no such columns
   */
  static LogicalRelation again(LogicalRelation read, HadoopFsRelation before, LoadedTable table, FileIndexes indexes) {
    requireColumns(table, before);
    HadoopFsRelation files = files(table, indexes, before.dataSchema(), before.partitionSchema());
    boolean isSame = files.location().rootPaths().equals(before.location().rootPaths()) && files.options().equals(before.options())
        && files.bucketSpec().equals(before.bucketSpec());
    return isSame ? read
        : read.copy(files, read.output(), Option.apply(PlannedTable.of(table, files.schema())), read.isStreaming(), read.stream());
  }

  /** Refuses a snapshot that lacks columns. Files have columns by stored names, so a renamed column is still found. */
  private static void requireColumns(LoadedTable table, HadoopFsRelation before) {
    List<StructField> found = List.of(storedSchema(table).fields());
    for (StructField column : before.schema().fields()) {
      if (found.stream().noneMatch(one -> one.name().equals(column.name()) && one.dataType().equals(column.dataType()))) {
        throw changed(table, "column " + column.name() + " " + column.dataType().sql() + " is no longer there");
      }
    }
    requirePartitions(table, List.of(before.partitionSchema().fieldNames()));
  }

  private static void requirePartitions(LoadedTable table, List<String> before) {
    List<String> partitionedBy = table.layout().storedPartitions();
    if (!partitionedBy.equals(before)) {
      throw changed(table, "its partition columns were (" + String.join(", ", before) + ") and are ("
          + String.join(", ", partitionedBy) + ")");
    }
  }

  /**
   * The rows of a micro-batch.
   *
   * @param table as of the batch's last snapshot
   * @param analyzed the table when the stream was analyzed; rows have its columns
   * @param output the columns as the stream's query has them
   */
  static LogicalPlan appended(
      LoadedTable table, LoadedTable analyzed, AppendedFiles.Batch batch, List<AttributeReference> output, SparkDataStream stream) {
    requireColumns(table, analyzed);
    StructType schema = storedSchema(analyzed);
    ColocPath root = ColocPath.parse(new Path(table.location()));
    List<Path> paths = batch.paths().stream().map(root::resolve).toList();
    int partitions = analyzed.layout().partitionedBy().size();
    HadoopFsRelation files = relation(
        table, listed(table, table.location(), paths, schema), data(schema, partitions), partition(schema, partitions),
        bucketSpec(table));
    Option<CatalogTable> planned = Option.apply(PlannedTable.of(table, schema, 0, batch.bytes()));
    LogicalRelation stored = LogicalRelation$.MODULE$.apply(files, planned.get());
    return shown(stored.copy(files, stored.output(), planned, true, Option.apply(stream)), output);
  }

  /**
   * The rows of some commits' files, each with {@link ChangedFiles#COLUMNS}.
   *
   * @param table whose columns are shown
   * @param wanted the table's columns, by their ids in the query
   */
  static LogicalPlan changed(LoadedTable table, List<FileChanges.Part> parts, List<AttributeReference> wanted) {
    StructType schema = storedSchema(table);
    int partitions = table.layout().partitionedBy().size();
    StructType partition = partition(schema, partitions).merge(ChangedFiles.COLUMNS, false);
    List<ChangedFiles.Commit> changed = new ArrayList<>();
    long bytes = 0;
    for (FileChanges.Part part : parts) {
      String location = LoadedTable.location(table.object(), Optional.of(part.holder()));
      ColocPath root = ColocPath.parse(new Path(location));
      List<Path> paths = part.files().keySet().stream().map(root::resolve).toList();
      changed.add(new ChangedFiles.Commit(
          part.commit().id(), part.commit().committedAt(), part.change(), listed(table, location, paths, schema)));
      bytes += part.files().values().stream().mapToLong(Long::longValue).sum();
    }
    ChangedFiles files = new ChangedFiles(FilePerTask.session(), new Path(table.location()), changed, partition);
    LogicalRelation stored = LogicalRelation$.MODULE$.apply(
        relation(table, files, data(schema, partitions), partition, bucketSpec(table)),
        PlannedTable.of(table, schema, 0, bytes));
    List<AttributeReference> output = new ArrayList<>(wanted);
    output.addAll(CollectionConverters.asJava(stored.output()).subList(wanted.size(), stored.output().size()));
    return shown(stored, output);
  }

  /** Refuses changed types and partition columns; a column that older files lack reads as NULL. */
  static void requireColumns(LoadedTable table, LoadedTable analyzed) {
    List<StructField> found = List.of(storedSchema(table).fields());
    for (StructField column : storedSchema(analyzed).fields()) {
      if (found.stream().anyMatch(one -> one.name().equals(column.name()) && !one.dataType().equals(column.dataType()))) {
        throw differs(table, analyzed, "its column " + column.name() + " is not " + column.dataType().sql());
      }
    }
    List<String> partitionedBy = table.layout().storedPartitions();
    List<String> expected = analyzed.layout().storedPartitions();
    if (!partitionedBy.equals(expected)) {
      throw differs(table, analyzed, "its partition columns are (" + String.join(", ", partitionedBy) + ") and not ("
          + String.join(", ", expected) + ")");
    }
  }

  private static RuntimeException differs(LoadedTable table, LoadedTable analyzed, String what) {
    long snapshot = table.snapshot().orElseThrow().id();
    boolean isOlder = analyzed.snapshot().map(Snapshot::id).orElse(0L) > snapshot;
    return new ColocationException("snapshot " + snapshot + " of table " + table.name() + " is not as the stream was analyzed: " + what
        + "; " + (isOlder ? "begin with a later snapshot: startingVersion, and a new checkpoint"
        : "start the stream again, with its checkpoint")).unchecked();
  }

  /** No rows. */
  static LogicalPlan nothing(List<AttributeReference> output) {
    return LocalRelation$.MODULE$.apply(sequence(List.<Attribute>copyOf(output)));
  }

  private static RuntimeException changed(LoadedTable table, String what) {
    return new ColocationException("table " + table.name() + " was changed since the stream began: " + what
        + "; start the stream again, with its checkpoint").unchecked();
  }

  /** The rows of some files, with the table's present names of columns. */
  static LogicalPlan some(LoadedTable table, List<Path> paths) {
    table.requireReadable();
    LogicalRelation stored = LogicalRelation$.MODULE$.apply(files(table, paths), PlannedTable.of(table, storedSchema(table)));
    List<Manifest.Column> columns =
        table.layout().partitionsLast().toList();
    List<NamedExpression> shown = new ArrayList<>();
    List<AttributeReference> found = CollectionConverters.asJava(stored.output());
    for (int position = 0; position < columns.size(); position++) {
      shown.add(named(found.get(position), columns.get(position).name()));
    }
    return new Project(sequence(shown), stored);
  }

  /**
   * Some of a snapshot's files as a bucketed relation.
   *
   * @param rows of these files, like {@code bytes}
   * @param wanted the table's columns, by their ids in the query
   */
  static ChosenFiles chosen(LoadedTable table, List<Path> paths, long rows, long bytes, List<AttributeReference> wanted) {
    LogicalRelation stored = LogicalRelation$.MODULE$.apply(
        files(table, paths), PlannedTable.of(table, storedSchema(table), rows, bytes)).withMetadataColumns();
    List<AttributeReference> output = new ArrayList<>(wanted);
    AttributeReference metadata = stored.output().last();
    output.add(metadata);
    return new ChosenFiles(shown(stored, output), metadata);
  }

  /**
   * A relation over some files.
   *
   * @param metadata the struct with each row's file and place in the file, the last column
   */
  record ChosenFiles(LogicalPlan plan, AttributeReference metadata) {}

  /** A new column. */
  static Alias named(Expression value, String name) {
    return alias(value, name, NamedExpression$.MODULE$.newExprId());
  }

  private static Alias alias(Expression column, String name, ExprId id) {
    return new Alias(column, name, id, sequence(List.of()), Option.empty(), sequence(List.of()));
  }

  /** Adds a projection, as in a view, for columns that were renamed after files were written. */
  private static LogicalPlan renamed(LogicalPlan relation, List<AttributeReference> wanted) {
    List<NamedExpression> shown = new ArrayList<>();
    List<Attribute> stored = CollectionConverters.asJava(relation.output());
    for (int position = 0; position < wanted.size(); position++) {
      AttributeReference name = wanted.get(position);
      Attribute column = stored.get(position);
      shown.add(column.exprId().equals(name.exprId()) ? column
          : alias(column, name.name(), name.exprId()));
    }
    return new Project(sequence(shown), relation);
  }

  private static ListedFiles listed(LoadedTable table, String location, List<Path> paths, StructType schema) {
    Path root = new Path(location);
    List<FileStatus> files = new ArrayList<>();
    try {
      FileSystem system = root.getFileSystem(TableLoader.configuration(table.fileSystem()));
      for (Path path : paths) {
        files.add(system.getFileStatus(path));
      }
    } catch (IOException error) {
      throw new ColocationException(error.getMessage(), error).unchecked();
    }
    return new ListedFiles(FilePerTask.session(), root, files, schema, table.fileSystem());
  }

  /** Some of the snapshot's files. */
  private static HadoopFsRelation files(LoadedTable table, List<Path> paths) {
    StructType schema = storedSchema(table);
    int partitions = table.layout().partitionedBy().size();
    return relation(
        table, listed(table, table.location(), paths, schema), data(schema, partitions), partition(schema, partitions),
        bucketSpec(table));
  }

  private static HadoopFsRelation files(LoadedTable table, FileIndexes indexes) {
    StructType schema = storedSchema(table);
    int partitions = table.layout().partitionedBy().size();
    return files(table, indexes, data(schema, partitions), partition(schema, partitions));
  }

  private static HadoopFsRelation files(LoadedTable table, FileIndexes indexes, StructType data, StructType partition) {
    FileIndex index = indexes.of(FilePerTask.session(), table, data.merge(partition, false));
    return relation(table, index, data, partition, bucketSpec(table));
  }

  private static HadoopFsRelation relation(
      LoadedTable table, FileIndex index, StructType data, StructType partition, Option<BucketSpec> buckets) {
    return new HadoopFsRelation(
        index, partition, data, buckets, new ParquetFileFormat(), scalaMap(table.options()), FilePerTask.session());
  }

  private static StructType data(StructType schema, int partitions) {
    return new StructType(Arrays.copyOf(schema.fields(), schema.size() - partitions));
  }

  private static StructType partition(StructType schema, int partitions) {
    return new StructType(Arrays.copyOfRange(schema.fields(), schema.size() - partitions, schema.size()));
  }

  /** The columns by the names that files have, those of partitions last. */
  private static StructType storedSchema(LoadedTable table) {
    TableLayout layout = table.layout();
    StructType schema = new StructType();
    for (Manifest.Column column : layout.partitionsLast().toList()) {
      schema = schema.add(column.storedName(), Types.parse(column.type()), true);
    }
    return schema;
  }

  static Option<BucketSpec> bucketSpec(LoadedTable table) {
    TableLayout layout = table.layout();
    if (!table.decision().bucketed()) {
      return Option.empty();
    }
    return Option.apply(new BucketSpec(
        table.shape().buckets().ofTable(), sequence(layout.storedNames(layout.bucketedBy())),
        sequence(layout.storedNames(layout.sortedInFiles()))));
  }

  static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }

  static scala.collection.immutable.Map<String, String> scalaMap(Map<String, String> map) {
    List<Tuple2<String, String>> pairs = new ArrayList<>();
    map.forEach((key, value) -> pairs.add(new Tuple2<>(key, value)));
    return Map$.MODULE$.from(sequence(pairs));
  }
}
