package dev.colocation.spark.catalog;

import static org.apache.spark.sql.functions.abs;
import static org.apache.spark.sql.functions.array_repeat;
import static org.apache.spark.sql.functions.count;
import static org.apache.spark.sql.functions.explode;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.max;
import static org.apache.spark.sql.functions.sum;
import static org.apache.spark.sql.functions.when;

import dev.colocation.spark.catalog.ChangesRequest.Deduplication;
import dev.colocation.spark.catalog.FileChanges.Part;
import dev.colocation.spark.cluster.ClusterView;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.TypeNames;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.plan.FilePerTask;
import dev.colocation.spark.write.RowChange;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias$;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation$;
import org.apache.spark.sql.expressions.Window;
import org.apache.spark.sql.expressions.WindowSpec;
import org.apache.spark.sql.types.StructField;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rows that commits of a table have inserted, deleted and updated, read from the files that they have added and removed.
 *
 * <p>Where files were replaced, each row counts as often as it is in the new files and not in the old ones, or the other way: the
 * rows are grouped by all columns. Both are bucketed by the table's key, so this needs no shuffle.
 */
final class ChangedRows {
  private static final String TYPE = "_change_type";
  private static final String VERSION = "_commit_version";
  private static final String TIME = "_commit_timestamp";
  /** Columns of the computation; no table has them. */
  private static final String COUNT = "_change_count";
  private static final String REPETITION = "_change_repetition";
  private static final String IS_UPDATE = "_change_is_update";

  private final TableLoader loader;
  private final ClusterView view;
  private final ColocatedTable object;
  private final Instant now;

  /**
   * Commits of a table.
   *
   * @param now by the API server
   */
  ChangedRows(TableLoader loader, ClusterView view, ColocatedTable object, Instant now) {
    this.loader = loader;
    this.view = view;
    this.object = object;
    this.now = now;
  }

  /**
   * The rows that the commits of a range have changed, with the columns that the table has at the range's end: without one, as it
   * is now.
   *
   * @param shown the table as the catalog shows it
   * @throws ColocationException (unchecked) when the table no longer keeps what it was before a commit, or its columns had other
   *     types
   */
  LogicalPlan in(ChangesRequest request, Function<LoadedTable, Table> shown) {
    LoadedTable newest = loader.newest(view, object);
    List<Snapshot> kept = object.snapshots().stream().sorted(Comparator.comparingLong(Snapshot::id)).toList();
    List<Snapshot> chosen = request.range().commits(newest.name(), kept, now);
    LoadedTable end = request.range().to().isEmpty() || chosen.isEmpty()
        ? newest : loader.older(view, object, chosen.get(chosen.size() - 1));
    requireNames(end);
    Optional<Snapshot> predecessor = chosen.isEmpty() ? Optional.empty()
        : kept.stream().filter(one -> one.id() == chosen.get(0).id() - 1).findFirst();
    FileChanges.Found found = FileChanges.of(
        predecessor, chosen, snapshot -> TableLoader.files(view, object, snapshot), request);
    LoadedTable table = found.layoutsMayDiffer() ? readable(end, found.parts(), request) : end;
    return SubqueryAlias$.MODULE$.apply(
        FilesRelation.sequence(List.of(table.catalog(), object.namespace(), object.sqlName())),
        plan(table, found.parts(), request, () -> CollectionConverters.asJava(
            DataSourceV2Relation$.MODULE$.create(shown.apply(table), Option.empty(), Option.empty()).output())));
  }

  private interface Columns {
    /** With ids of their own each time. */
    List<AttributeReference> create();
  }

  private LogicalPlan plan(LoadedTable table, List<Part> parts, ChangesRequest request, Columns columns) {
    List<Part> compared = parts.stream().filter(Part::isCompared).toList();
    List<Part> whole = parts.stream().filter(part -> !part.isCompared()).toList();
    LogicalPlan changed = FilesRelation.changed(table, whole, columns.create());
    if (compared.isEmpty()) {
      return changed;
    }
    Dataset<Row> rows = differences(table, FilesRelation.changed(table, compared, columns.create()), request);
    if (request.computesUpdates()) {
      rows = updates(table, rows, compared, request);
    }
    return analyzed(whole.isEmpty() ? rows : rows(changed).union(rows));
  }

  private static Dataset<Row> rows(LogicalPlan plan) {
    return org.apache.spark.sql.classic.Dataset.ofRows(FilePerTask.session(), plan);
  }

  private static LogicalPlan analyzed(Dataset<Row> rows) {
    return ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution().analyzed();
  }

  /** Each row as often as the new files have it and the old ones do not, or the other way. */
  private static Dataset<Row> differences(LoadedTable table, LogicalPlan files, ChangesRequest request) {
    Dataset<Row> rows = rows(files);
    boolean isNet = request.deduplication() == Deduplication.NET_CHANGES;
    List<Column> columns = columns(table, rows);
    List<Column> keys = new ArrayList<>(columns);
    if (!isNet) {
      keys.addAll(List.of(rows.col(VERSION), rows.col(TIME)));
    }
    Column sign = when(rows.col(TYPE).equalTo(FileChanges.INSERT), lit(1L)).otherwise(lit(-1L));
    var grouped = rows.groupBy(keys.toArray(Column[]::new));
    Dataset<Row> counted = isNet
        ? grouped.agg(sum(sign).as(COUNT), max(rows.col(VERSION)).as(VERSION), max(rows.col(TIME)).as(TIME))
        : grouped.agg(sum(sign).as(COUNT));
    Dataset<Row> changed = counted.where(counted.col(COUNT).notEqual(lit(0L)));
    Dataset<Row> repeated = changed.withColumn(
        REPETITION, explode(array_repeat(lit(0), abs(changed.col(COUNT)).cast("int"))));
    Column type = when(repeated.col(COUNT).gt(lit(0L)), lit(FileChanges.INSERT)).otherwise(lit(FileChanges.DELETE));
    return selected(table, repeated, type);
  }

  /** Marks rows of UPDATE commits, and keys of which a commit deleted and inserted equally many rows. */
  private static Dataset<Row> updates(LoadedTable table, Dataset<Row> rows, List<Part> parts, ChangesRequest request) {
    Object[] updates = parts.stream().map(Part::commit)
        .filter(commit -> commit.operation().equals(RowChange.Kind.UPDATE.label())).map(Snapshot::id).distinct().toArray();
    boolean isNet = request.deduplication() == Deduplication.NET_CHANGES;
    boolean areAllUpdates = !isNet && parts.stream().map(Part::commit).map(Snapshot::id).distinct().count() == updates.length;
    List<Column> key = new ArrayList<>(table.layout().bucketedBy().stream().map(name -> named(table, rows, name)).toList());
    if (!isNet) {
      key.add(rows.col(VERSION));
    }
    WindowSpec ofKey = Window.partitionBy(key.toArray(Column[]::new));
    Column inserted = count(when(rows.col(TYPE).equalTo(FileChanges.INSERT), lit(1))).over(ofKey);
    Column deleted = count(when(rows.col(TYPE).equalTo(FileChanges.DELETE), lit(1))).over(ofKey);
    Column isUpdate = areAllUpdates ? lit(true)
        : isNet || updates.length == 0 ? inserted.equalTo(deleted) : rows.col(VERSION).isin(updates).or(inserted.equalTo(deleted));
    Dataset<Row> marked = rows.withColumn(IS_UPDATE, isUpdate);
    Column type = when(marked.col(IS_UPDATE).and(marked.col(TYPE).equalTo(FileChanges.INSERT)), lit(FileChanges.AFTER_UPDATE))
        .when(marked.col(IS_UPDATE), lit(FileChanges.BEFORE_UPDATE)).otherwise(marked.col(TYPE));
    return selected(table, marked, type);
  }

  private static Dataset<Row> selected(LoadedTable table, Dataset<Row> rows, Column type) {
    List<Column> columns = new ArrayList<>(columns(table, rows));
    columns.addAll(List.of(type.as(TYPE), rows.col(VERSION), rows.col(TIME)));
    return rows.select(columns.toArray(Column[]::new));
  }

  private static List<Column> columns(LoadedTable table, Dataset<Row> rows) {
    return table.layout().partitionsLast().map(column -> named(table, rows, column.name())).toList();
  }

  private static Column named(LoadedTable table, Dataset<Row> rows, String name) {
    return rows.col("`" + table.layout().column(name).name().replace("`", "``") + "`");
  }

  // Commits that replaced all rows, perhaps under another definition

  /** The table such that files of all these snapshots can be read. */
  private LoadedTable readable(LoadedTable end, List<Part> parts, ChangesRequest request) {
    Map<String, Snapshot> holders = new HashMap<>();
    parts.forEach(part -> holders.put(part.holder().manifestSha256(), part.holder()));
    Map<String, Integer> padded = new HashMap<>(end.shape().padded());
    LoadedTable table = end;
    for (Snapshot holder : holders.values()) {
      Manifest manifest = TableLoader.manifest(LoadedTable.location(object, Optional.of(holder)), end.fileSystem());
      requireColumns(end, manifest, holder, request);
      padded.entrySet().retainAll(manifest.padded().entrySet());
      boolean isSame = manifest.buckets().equals(end.shape().buckets()) && manifest.bucketedBy().equals(end.layout().bucketedBy())
          && manifest.sortedBy().equals(end.layout().sortedBy());
      table = isSame ? table : table.unbucketed("snapshot " + holder.id() + " has other buckets, or another order of rows");
    }
    return padded.equals(end.shape().padded()) ? table : table.padded(padded);
  }

  private void requireColumns(LoadedTable end, Manifest manifest, Snapshot holder, ChangesRequest request) {
    Map<String, String> types = manifest.columns().stream().collect(Collectors.toMap(Manifest.Column::storedName, Manifest.Column::type));
    String changed = end.layout().columns().stream()
        .filter(column -> types.containsKey(column.storedName()) && !TypeNames.areEqual(types.get(column.storedName()), column.type()))
        .map(column -> "column " + column.name() + " was " + types.get(column.storedName()) + " and is " + column.type())
        .collect(Collectors.joining(", "));
    Set<String> partitions = manifest.columns().stream().filter(column -> manifest.partitionedBy().contains(column.name()))
        .map(Manifest.Column::storedName).collect(Collectors.toSet());
    if (changed.isEmpty() && !partitions.equals(Set.copyOf(end.layout().storedPartitions()))) {
      changed = "it was partitioned by " + manifest.partitionedBy() + " and is by " + end.layout().partitionedBy();
    }
    if (!changed.isEmpty()) {
      throw new ColocationException("table " + object.shownName() + ": " + request.range() + "; since snapshot " + holder.id()
          + " the table was replaced: " + changed + ". Read the ranges before and after that commit").unchecked();
    }
  }

  private void requireNames(LoadedTable table) {
    List<String> added = new ArrayList<>(List.of(COUNT, REPETITION, IS_UPDATE));
    Arrays.stream(ChangedFiles.COLUMNS.fields()).map(StructField::name).forEach(added::add);
    for (String name : added) {
      if (table.layout().columns().stream().anyMatch(column -> column.name().equalsIgnoreCase(name))) {
        throw new ColocationException("table " + object.shownName() + " has a column " + name
            + ", as CHANGES has one: ALTER TABLE … RENAME COLUMN").unchecked();
      }
    }
  }
}
