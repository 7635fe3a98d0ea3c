package dev.colocation.spark.catalog;

import java.util.List;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Puts a bucketed relation over files in the place of a catalog's table, when a query is analyzed: so joins of the catalog's
 * tables are planned as joins of Spark's own bucketed tables are. Writes, which would need the table itself, are refused.
 */
public final class ReadAsFiles extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(ReadAsFiles.class);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      refuseWrites(plan);
      return plan.resolveOperatorsUp(new Replacement());
    } catch (LinkageError error) {
      // A fork of Spark with other classes: queries that have nothing to do with us must go on.
      LOG.warn("this Spark's plans are not understood; tables of a ColocationCatalog cannot be read", error);
      return plan;
    }
  }

  private static final class Replacement extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return node instanceof DataSourceV2Relation relation && relation.table() instanceof ColocationTable;
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      DataSourceV2Relation relation = (DataSourceV2Relation) node;
      return ((ColocationTable) relation.table()).files(relation);
    }
  }

  private static void refuseWrites(LogicalPlan plan) {
    String statement = "";
    Object target = null;
    if (plan instanceof InsertIntoStatement insert) {
      statement = "INSERT";
      target = insert.table();
    } else if (plan instanceof V2WriteCommand write) {
      statement = "a write";
      target = write.table();
    } else if (plan instanceof DeleteFromTable delete) {
      statement = "DELETE";
      target = delete.table();
    } else if (plan instanceof UpdateTable update) {
      statement = "UPDATE";
      target = update.table();
    } else if (plan instanceof MergeIntoTable merge) {
      statement = "MERGE";
      target = merge.targetTable();
    } else if (plan instanceof CreateTableAsSelect create) {
      statement = "CREATE TABLE AS SELECT";
      target = create.name();
    } else if (plan instanceof ReplaceTableAsSelect replace) {
      statement = "CREATE OR REPLACE TABLE AS SELECT";
      target = replace.name();
    }
    refuse(statement, target);
    children(plan).forEach(ReadAsFiles::refuseWrites);
  }

  private static void refuse(String statement, Object target) {
    if (target instanceof SubqueryAlias alias) {
      refuse(statement, alias.child());
    } else if (target instanceof DataSourceV2Relation relation && relation.table() instanceof ColocationTable table) {
      throw refusal(statement, table.name());
    } else if (target instanceof ResolvedIdentifier name && name.catalog() instanceof ColocationCatalog catalog) {
      throw refusal(statement, Names.quoted(catalog.name(), name.identifier()));
    }
  }

  static RuntimeException refusal(String statement, String table) {
    return new ColocationException(table + " does not take " + statement + ": load rows with "
        + "colocation.spark.load(df, table) or `colocation load`").unchecked();
  }

  private static List<LogicalPlan> children(LogicalPlan plan) {
    return CollectionConverters.asJava(plan.children());
  }
}
