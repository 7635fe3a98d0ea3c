package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.ColocationGroup;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.KubernetesApi;
import dev.colocation.spark.cluster.Names;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.cluster.Types;
import dev.colocation.spark.write.Change;
import dev.colocation.spark.write.Change.DropPartitions;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import dev.colocation.spark.write.Compaction;
import dev.colocation.spark.write.PartitionPredicates;
import dev.colocation.spark.write.TableWriteBuilder;
import dev.colocation.spark.write.Transaction;
import dev.colocation.spark.write.WriteOptions;
import dev.colocation.spark.write.WriteTarget;
import dev.colocation.spark.write.WriteTarget.Writable;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.LogicalExpressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A ColocatedTable in Spark's catalog. In queries {@link ReadAsFiles} replaces it by its files. Writes use Spark's own path:
 * {@link TableWriteBuilder}.
 */
class ColocationTable extends PartitionedTable implements SupportsRead, SupportsWrite, SupportsDeleteV2, Writable {
  private final LoadedTable table;
  private final FileIndexes indexes;
  private final Changing changing;

  ColocationTable(LoadedTable table, FileIndexes indexes, Changing changing) {
    this.table = table;
    this.indexes = indexes;
    this.changing = changing;
  }

  /** Parts that change tables: the API server's client, how long to wait for the operator, and the compaction. */
  record Changing(KubernetesApi api, int acceptSeconds, Compactions compactions) {}

  /** Compacts the present files of a table, by its namespace and name. */
  interface Compactions {
    Compaction.Result run(String namespace, String table, int mostFiles) throws Exception;
  }

  LoadedTable loaded() {
    return table;
  }

  /** The table's files, in place of this table. */
  LogicalPlan files(DataSourceV2Relation replaced) {
    table.requireReadable();
    return FilesRelation.plan(table, indexes, replaced);
  }

  @Override
  public String name() {
    return table.name();
  }

  /** All columns, partition columns last, as in Spark's file tables. */
  @Override
  public Column[] columns() {
    return layout().partitionsLast()
        .map(column -> Column.create(
            column.name(), Types.declared(column.type()), true,
            table.object().comments().get(Names.lowerCase(column.name())), null))
        .toArray(Column[]::new);
  }

  @Override
  @SuppressWarnings("deprecation") // Spark 4.0 asks for it
  public StructType schema() {
    return CatalogV2Util.v2ColumnsToStructType(columns());
  }

  @Override
  public Transform[] partitioning() {
    TableLayout layout = layout();
    List<Transform> transforms = new ArrayList<>();
    layout.partitionedBy().forEach(name -> transforms.add(Expressions.identity(Names.inBackQuotes(name))));
    // As it was declared: Spark compares it with bucketBy and sortBy of a write that adds rows.
    boolean isSortDeclared = TableProperty.givenBy(table.object().spec()).containsKey(TableProperty.SORTED_BY.key());
    NamedReference[] key = references(layout.bucketedBy());
    transforms.add(isSortDeclared ? LogicalExpressions.bucket(table.shape().buckets().ofTable(), key, references(layout.sortedBy()))
        : LogicalExpressions.bucket(table.shape().buckets().ofTable(), key));
    return transforms.toArray(Transform[]::new);
  }

  private static NamedReference[] references(List<String> columns) {
    return columns.stream().map(Names::inBackQuotes).map(Expressions::column).toArray(NamedReference[]::new);
  }

  /** Shown by DESCRIBE EXTENDED and SHOW TBLPROPERTIES. */
  @Override
  public Map<String, String> properties() {
    ColocatedTable object = table.object();
    Map<String, String> shown = new TreeMap<>(TableProperty.defaults());
    shown.putAll(TableProperty.givenBy(object.spec()));
    shown.putAll(object.pipelineProperties());
    shown.put(TableCatalog.PROP_PROVIDER, "parquet");
    shown.put(TableCatalog.PROP_LOCATION, table.location());
    shown.put("colocate_with", object.colocateWith());
    shown.put("buckets", String.valueOf(table.shape().buckets().ofTable()));
    shown.put("colocate", String.valueOf(table.decision().bucketed()));
    shown.put("snapshot", table.snapshot().map(snapshot -> String.valueOf(snapshot.id())).orElse("0"));
    table.group().ifPresent(group -> {
      ColocationGroup found = group.object();
      shown.put("group", found.key().toString());
      shown.put("replication_num", String.valueOf(found.replicas()));
      shown.put("stable", found.stable().map(String::valueOf).orElse("unknown"));
      shown.put("stable_reason", found.reason());
    });
    table.unreadable().ifPresent(error -> shown.put("readable", "false"));
    String reason = table.decision().reason() + table.decision().note();
    if (!reason.isEmpty()) {
      shown.put("reason", reason);
    }
    return shown;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(
        TableCapability.BATCH_READ, TableCapability.BATCH_WRITE, TableCapability.TRUNCATE,
        TableCapability.OVERWRITE_BY_FILTER, TableCapability.OVERWRITE_DYNAMIC, TableCapability.STREAMING_WRITE,
        TableCapability.MICRO_BATCH_READ);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    Optional<Integer> planned = table.placing().filter(group -> !group.object().buckets().isEmpty()).map(group -> plannedBuckets());
    return new TableWriteBuilder(target(), info, layout(), planned, () -> wholePartitionsOnly(
        "REPLACE WHERE (overwrite by a condition)", "equalities of its partition columns (%s), IN, IS NULL, AND and OR",
        "To replace other rows"));
  }

  @Override
  public WriteTarget target() {
    return target(Optional.empty());
  }

  final WriteTarget target(Optional<WriteTarget.Staging> staging) {
    ColocatedTable object = table.object();
    // Spark 4.0 loads the table of a stream outside of the stream's session, and writes within it.
    Map<String, String> access = new TreeMap<>(table.fileSystem());
    access.putAll(LoadedTable.fileSystem(object, Optional.empty(), SQLConf.get()));
    return new WriteTarget(
        name(), changing.api(), object.namespace(), object.name(), object.uid(),
        table.snapshot().map(Snapshot::id).orElse(0L), table.manifest(), access,
        Duration.ofSeconds(changing.acceptSeconds()),
        mostFiles -> changing.compactions().run(object.namespace(), object.name(), mostFiles), staging);
  }

  @Override
  public int plannedBuckets() {
    return table.shape().buckets().ofTable();
  }

  @Override
  public TableLayout layout() {
    return table.shape().layout();
  }

  /** Whether DELETE can remove what fulfils these conditions: whole partitions. */
  @Override
  public boolean canDeleteWhere(Predicate[] conditions) {
    if (new PartitionPredicates(layout()).partitions(conditions).isEmpty()) {
      throw deletesWholePartitionsOnly();
    }
    return true;
  }

  RuntimeException deletesWholePartitionsOnly() {
    return wholePartitionsOnly("DELETE", "conditions of its partition columns only (%s)", "To remove other rows");
  }

  private RuntimeException wholePartitionsOnly(String statement, String conditions, String otherwise) {
    String columns = String.join(", ", layout().partitionedBy());
    return new ColocationException(name() + " does not take " + statement + " of single rows, only of whole partitions: WHERE "
        + (columns.isEmpty() ? "is left out, since it has no partition columns"
            : "takes " + String.format(Locale.ROOT, conditions, columns))
        + ". " + otherwise + ", use INSERT OVERWRITE with a query of those that stay").unchecked();
  }

  /** DELETE: the partitions go, with all rows that are in them at the commit. */
  @Override
  public void deleteWhere(Predicate[] conditions) {
    List<Map<String, String>> partitions = new PartitionPredicates(layout()).partitions(conditions).orElseThrow();
    Optional<CommitKey> key = WriteOptions.keyOfSession();
    if (partitions.contains(Map.<String, String>of())) {
      truncate(key);
    } else {
      drop(partitions, key);
    }
  }

  @Override
  final void dropAll(List<Map<String, String>> partitions) {
    drop(partitions, Optional.empty());
  }

  private void drop(List<Map<String, String>> partitions, Optional<CommitKey> key) {
    table.requireReadable();
    if (!partitions.isEmpty() || key.isPresent()) {
      Transaction transaction = target().begin();
      if (key.isPresent() || hasFilesIn(transaction, partitions)) {
        transaction.commit(name(), new DropPartitions(partitions), List.of(), key);
      }
    }
  }

  /** A commit that drops nothing would cost the table one of its retained snapshots. */
  private static boolean hasFilesIn(Transaction transaction, List<Map<String, String>> partitions) {
    Optional<Snapshot> newest = transaction.table().snapshot();
    try {
      return newest.isPresent()
          && transaction.files(newest.get().manifestSha256()).stream().anyMatch(file -> Change.isIn(file, partitions));
    } catch (IOException error) {
      throw ColocationException.unchecked(error);
    }
  }

  /** TRUNCATE TABLE: the older snapshots can be read for as long as they are kept. */
  @Override
  public boolean truncateTable() {
    truncate(Optional.empty());
    return true;
  }

  private void truncate(Optional<CommitKey> key) {
    Transaction transaction = target().begin();
    NewFiles nothing = new NewFiles(Mode.OVERWRITE, List.of(), transaction.destination().madeFor());
    transaction.commit(name(), nothing, List.of(), key);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return () -> new Scanned(options);
  }

  /** What DESCRIBE and streams ask; a query gets here only without the rule. */
  private final class Scanned implements SupportsReportStatistics {
    private final CaseInsensitiveStringMap options;

    Scanned(CaseInsensitiveStringMap options) {
      this.options = options;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      table.requireReadable();
      return new TableStream(table, changing.api(), StreamOptions.of(options));
    }

    @Override
    public StructType readSchema() {
      return CatalogV2Util.v2ColumnsToStructType(columns());
    }

    @Override
    public Statistics estimateStatistics() {
      return new Size(table.snapshot().map(Snapshot::bytes), table.snapshot().map(Snapshot::rows));
    }

    @Override
    public Batch toBatch() {
      throw withoutExtensions(name());
    }
  }

  static RuntimeException withoutExtensions(String table) {
    return new ColocationException(table + " is read by a rule that this session lacks: start the application with "
        + "spark.sql.extensions=dev.colocation.spark.ColocationExtensions").unchecked();
  }

  private record Size(Optional<Long> bytes, Optional<Long> rows) implements Statistics {
    @Override
    public OptionalLong sizeInBytes() {
      return OptionalLong.of(bytes.orElse(0L));
    }

    @Override
    public OptionalLong numRows() {
      return OptionalLong.of(rows.orElse(0L));
    }
  }

  @Override
  public String toString() {
    return name();
  }
}
