package dev.colocation.spark.plan;

import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogColumnStat;
import org.apache.spark.sql.catalyst.catalog.CatalogStatistics;
import org.apache.spark.sql.internal.SessionState;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Map;
import scala.math.BigInt;

/** For Python, which cannot make Scala's numbers: gives Spark's catalog what is known of a registered table. */
public final class TableStatistics {
  private TableStatistics() {}

  /**
   * Gives the table's rows, and their size as Spark reckons it by the columns' types.
   *
   * @param table its name, quoted as in SQL
   */
  public static void tellRowCount(SessionState state, String table, long rows) throws AnalysisException {
    TableIdentifier name = state.sqlParser().parseTableIdentifier(table);
    long rowBytes = state.catalog().getTableMetadata(name).schema().defaultSize();
    Map<String, CatalogColumnStat> columns = Map$.MODULE$.empty();
    CatalogStatistics statistics =
        new CatalogStatistics(BigInt.apply(rows * rowBytes), Option.apply(BigInt.apply(rows)), columns);
    state.catalog().alterTableStats(name, Option.apply(statistics));
  }
}
