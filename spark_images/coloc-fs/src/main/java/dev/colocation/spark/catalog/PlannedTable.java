package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Snapshot;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.util.List;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogColumnStat;
import org.apache.spark.sql.catalyst.catalog.CatalogStatistics;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTable$;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.math.BigInt;

/** A table's name and size in plans; EXPLAIN and Spark's UI show the name. */
final class PlannedTable {
  /** Multiplied by the bytes of a row it still fits a long; anyone who can load a table can write any number into its status. */
  private static final long MAX_ROWS = 1_000_000_000_000L;

  private static final int STATISTICS_PARAMETER = 12;

  private PlannedTable() {}

  static CatalogTable of(LoadedTable table, StructType schema) {
    return of(table, schema, table.snapshot().map(Snapshot::rows).orElse(0L),
        table.snapshot().map(Snapshot::bytes).orElse(0L));
  }

  /** The same for some of the table's rows; {@code rows} is 0 where their number is unknown. */
  static CatalogTable of(LoadedTable table, StructType schema, long rows, long bytes) {
    ColocatedTable object = table.object();
    Map<String, CatalogColumnStat> columns = Map$.MODULE$.empty();
    CatalogStatistics statistics = new CatalogStatistics(
        BigInt.apply(sizeInBytes(rows, schema.defaultSize(), bytes)), rowCount(rows), columns);
    List<Object> known = List.of(
        new TableIdentifier(object.sqlName(), Option.apply(object.namespace()), Option.apply(table.catalog())),
        CatalogTableType.EXTERNAL(),
        CatalogStorageFormat.empty(),
        schema,
        Option.apply("parquet"),
        FilesRelation.sequence(table.layout().storedPartitions()),
        FilesRelation.bucketSpec(table));
    return make(known, Option.apply(statistics));
  }

  /**
   * The size that Spark compares with its limit for broadcasts. Spark counts 20 bytes for every text of a row; files of wide rows
   * are larger than that, although they are compressed. At least 1, since Spark multiplies the sizes of a join's sides.
   *
   * @param rowBytes of a row, as Spark estimates it from types
   * @param fileBytes of one replica
   */
  static long sizeInBytes(long rows, int rowBytes, long fileBytes) {
    long estimated = Math.min(Math.max(rows, 0), MAX_ROWS) * rowBytes;
    return Math.max(1, Math.max(estimated, fileBytes));
  }

  /** Empty where the status has no number, so that the table does not count as empty. */
  private static Option<BigInt> rowCount(long rows) {
    return rows <= 0 ? Option.empty() : Option.apply(BigInt.apply(Math.min(rows, MAX_ROWS)));
  }

  /** Versions of Spark add parameters at the end; all but the first ones have defaults, which only Scala can leave out. */
  private static CatalogTable make(List<Object> known, Option<CatalogStatistics> statistics) {
    Constructor<?> constructor = CatalogTable.class.getConstructors()[0];
    Object[] values = new Object[constructor.getParameterCount()];
    try {
      for (int index = 0; index < values.length; index++) {
        if (index < known.size()) {
          values[index] = known.get(index);
        } else if (index == STATISTICS_PARAMETER) {
          values[index] = statistics;
        } else {
          values[index] = CatalogTable$.class.getMethod("apply$default$" + (index + 1)).invoke(CatalogTable$.MODULE$);
        }
      }
      return (CatalogTable) constructor.newInstance(values);
    } catch (NoSuchMethodException | IllegalAccessException | InstantiationException | InvocationTargetException error) {
      throw new ColocationException("this Spark has another CatalogTable than those known: " + error, error).unchecked();
    }
  }
}
