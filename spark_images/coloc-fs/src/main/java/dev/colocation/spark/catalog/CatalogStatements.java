package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.TableDefinition.ShownTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Names;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ShowCreateTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.execution.command.CreateTableLikeCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Statements about the catalog's tables that Spark would answer wrongly, or refuse without a way out: {@code SHOW CREATE TABLE}
 * is answered; unsupported ones are refused with their substitute. It runs before names are resolved, too: Spark itself would refuse
 * a view as soon as its catalog is known.
 */
public final class CatalogStatements extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(CatalogStatements.class);
  private static final String NO_STATISTICS = "rows and bytes of each snapshot are known since its commit: leave the statement out";
  private static final String NO_REPAIR = "partitions are known since their commit: leave the statement out";
  private static final String NO_VIEWS = "use CREATE VIEW spark_catalog.<database>.<view> AS …, or CREATE TEMPORARY VIEW";

  /** Refused statements by the names of Spark's plans; some versions lack some of them. */
  private static final Map<String, List<String>> NOT_TAKEN = Map.of(
      "AnalyzeTable", List.of("ANALYZE TABLE", NO_STATISTICS),
      "AnalyzeColumn", List.of("ANALYZE TABLE", NO_STATISTICS),
      "AnalyzeTables", List.of("ANALYZE TABLES", NO_STATISTICS),
      "RepairTable", List.of("REPAIR TABLE", NO_REPAIR),
      "RecoverPartitions", List.of("RECOVER PARTITIONS", NO_REPAIR),
      "LoadData", List.of("LOAD DATA", "use INSERT INTO … SELECT * FROM parquet.`<path>`"),
      "CreateView", List.of("CREATE VIEW", NO_VIEWS),
      "DropView", List.of("DROP VIEW", "it has tables only (DROP TABLE); views are in spark_catalog.<database>, or temporary"),
      "CreateTableLike", List.of("CREATE TABLE … LIKE", "use the statement of SHOW CREATE TABLE for the other table, with the new name"),
      "SetTableSerDeProperties", List.of("SET SERDE", "files are Parquet: leave the statement out"));

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      refuseOthers(plan);
      return plan instanceof ShowCreateTable show ? shown(show) : plan;
    } catch (LinkageError error) {
      LOG.warn("this Spark's plans are not understood; statements about tables of a ColocationCatalog are Spark's own", error);
      return plan;
    }
  }

  private static LogicalPlan shown(ShowCreateTable show) {
    if (!(show.child() instanceof ResolvedTable resolved && resolved.table() instanceof ColocationTable table)) {
      return show;
    }
    if (show.asSerde()) {
      throw new ColocationException("SHOW CREATE TABLE … AS SERDE is of Hive's tables; leave AS SERDE out").unchecked();
    }
    String name = Names.quoted(resolved.catalog().name(), resolved.identifier());
    return LocalRelation$.MODULE$.fromExternalRows(
        show.output(), FilesRelation.sequence(List.of(RowFactory.create(ShownTable.statement(name, table.loaded())))));
  }

  private static void refuseOthers(LogicalPlan plan) {
    List<String> words = NOT_TAKEN.get(plan.getClass().getSimpleName());
    if (words != null) {
      List<LogicalPlan> children = CollectionConverters.asJava(plan.children());
      children.stream().map(CatalogStatements::named).filter(what -> !what.isEmpty()).findFirst().ifPresent(what -> {
        throw new ColocationException(what + " does not take " + words.get(0) + "; " + words.get(1)).unchecked();
      });
    }
    if (plan instanceof CreateTableLikeCommand like && like.sourceTable().catalog().isEmpty()) {
      refuseLike(like, SparkSession.active());
    }
  }

  private static void refuseLike(CreateTableLikeCommand like, SparkSession session) {
    String catalog = session.catalog().currentCatalog();
    if (ClusterCatalog.CONFIGURED_CLASS.equals(session.sessionState().conf().getConfString("spark.sql.catalog." + catalog, ""))) {
      throw new ColocationException("catalog " + catalog + " does not take CREATE TABLE … LIKE; use the statement of SHOW CREATE TABLE "
          + like.sourceTable().table() + ", with the new name").unchecked();
    }
  }

  /** The table or catalog that a plan is about, when it is ours; else empty. */
  private static String named(LogicalPlan child) {
    if (child instanceof ResolvedTable resolved && resolved.table() instanceof ColocationTable table) {
      return table.name();
    }
    if (child instanceof UnresolvedIdentifier name) {
      String catalog = ColocationNames.catalogIfOurs(CollectionConverters.asJava(name.nameParts()));
      return catalog.isEmpty() ? "" : "catalog " + catalog;
    }
    CatalogPlugin catalog = child instanceof ResolvedNamespace namespace ? namespace.catalog()
        : child instanceof ResolvedIdentifier name ? name.catalog() : null;
    return catalog instanceof ClusterCatalog ? "catalog " + catalog.name() : "";
  }

  /** Whether a DELETE of a table of ours removes whole partitions. */
  static boolean namesPartitionsOnly(DeleteFromTable delete) {
    if (SubqueryExpression.hasSubquery(delete.condition())) {
      return false;
    }
    Set<String> partitions = target(delete.table()).loaded().layout().partitionedBy().stream()
        .map(name -> name.toLowerCase(Locale.ROOT)).collect(Collectors.toSet());
    List<Attribute> columns = CollectionConverters.asJava(delete.condition().references().toSeq());
    return columns.stream().allMatch(column -> partitions.contains(column.name().toLowerCase(Locale.ROOT)));
  }

  /** The table of ours that a statement changes; null when it changes another one. */
  static ColocationTable target(LogicalPlan target) {
    if (target instanceof SubqueryAlias alias) {
      return target(alias.child());
    }
    return target instanceof DataSourceV2Relation relation && relation.table() instanceof ColocationTable table ? table : null;
  }
}
