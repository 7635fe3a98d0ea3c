package dev.colocation.spark.catalog;

import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.runtime.AbstractPartialFunction;

/**
 * Puts a bucketed relation over files in the place of a catalog's table, when a query is analyzed: so joins of the catalog's
 * tables are planned as joins of Spark's own bucketed tables are. What is written stays the catalog's table.
 */
public final class ReadAsFiles extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(ReadAsFiles.class);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      if (plan instanceof DeleteFromTable delete && CatalogStatements.target(delete.table()) != null) {
        return plan;
      }
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
      ColocationTable table = (ColocationTable) relation.table();
      OptionsOfReads.take(table.name(), relation.options());
      return table.files(relation);
    }
  }
}
