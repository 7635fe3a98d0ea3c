package dev.colocation.spark.catalog;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A ColocatedTable in Spark's catalog. Queries read its files: {@link ReadAsFiles} puts them in its place. */
final class ColocationTable implements SupportsRead {
  private final LoadedTable table;
  private final FileIndexes indexes;

  ColocationTable(LoadedTable table, FileIndexes indexes) {
    this.table = table;
    this.indexes = indexes;
  }

  /** The table's files, in the place of this table. */
  LogicalPlan files(DataSourceV2Relation replaced) {
    return FilesRelation.plan(table, indexes, replaced);
  }

  @Override
  public String name() {
    return table.name();
  }

  /** Partition columns are the last ones, as in all of Spark's file tables. */
  @Override
  public Column[] columns() {
    return TableObject.partitionsLast(table.shape().columns(), table.shape().partitionedBy())
        .map(column -> Column.create(column.name(), Types.parse(column.type())))
        .toArray(Column[]::new);
  }

  @Override
  @SuppressWarnings("deprecation") // Spark 4.0 asks for it
  public StructType schema() {
    return CatalogV2Util.v2ColumnsToStructType(columns());
  }

  @Override
  public Transform[] partitioning() {
    LoadedTable.Shape shape = table.shape();
    List<Transform> transforms = new ArrayList<>();
    shape.partitionedBy().forEach(name -> transforms.add(Expressions.identity(name)));
    transforms.add(Expressions.bucket(shape.buckets(), shape.bucketedBy().toArray(String[]::new)));
    return transforms.toArray(Transform[]::new);
  }

  /** Shown by DESCRIBE EXTENDED and SHOW TBLPROPERTIES. */
  @Override
  public Map<String, String> properties() {
    TableObject object = table.object();
    Map<String, String> shown = new TreeMap<>();
    shown.put(TableCatalog.PROP_PROVIDER, "parquet");
    shown.put(TableCatalog.PROP_LOCATION, table.location());
    shown.put("colocate_with", object.colocateWith());
    shown.put("buckets", String.valueOf(table.shape().buckets()));
    shown.put("colocate", String.valueOf(table.decision().bucketed()));
    shown.put("snapshot", table.snapshot().map(snapshot -> String.valueOf(snapshot.id())).orElse("0"));
    table.group().ifPresent(group -> {
      GroupObject found = group.object();
      shown.put("group", found.key().toString());
      shown.put("replication_num", String.valueOf(found.replicas()));
      shown.put("stable", found.stable().map(String::valueOf).orElse("unknown"));
      shown.put("stable_reason", found.reason());
    });
    String reason = table.decision().reason() + table.decision().note();
    if (!reason.isEmpty()) {
      shown.put("reason", reason);
    }
    return shown;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return Scanned::new;
  }

  /** What DESCRIBE asks; a query gets here only without the rule. */
  private final class Scanned implements SupportsReportStatistics {
    @Override
    public StructType readSchema() {
      return CatalogV2Util.v2ColumnsToStructType(columns());
    }

    @Override
    public Statistics estimateStatistics() {
      return new Size(table.snapshot().map(TableObject.Snapshot::bytes), table.snapshot().map(TableObject.Snapshot::rows));
    }

    @Override
    public Batch toBatch() {
      throw new ColocationException(name() + " is read by a rule that this session lacks: start the application with "
          + "spark.sql.extensions=dev.colocation.spark.ColocationExtensions").unchecked();
    }
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
