package dev.colocation.spark.catalog;

import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Puts a bucketed relation over files in the place of a catalog's table, when a query is analyzed: so joins of the catalog's
 * tables are planned as joins of Spark's own bucketed tables are. What is written stays the catalog's table; statements that would
 * change single rows are refused.
 */
public final class ReadAsFiles extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(ReadAsFiles.class);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      refuseChangesOfRows(plan);
      if (plan instanceof DeleteFromTable delete && target(delete.table()) != null) {
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
      return ((ColocationTable) relation.table()).files(relation);
    }
  }

  /** Files are immutable: what changes single rows would rewrite all of them. */
  private static void refuseChangesOfRows(LogicalPlan plan) {
    if (plan instanceof UpdateTable update) {
      refuse("UPDATE", target(update.table()));
    } else if (plan instanceof MergeIntoTable merge) {
      refuse("MERGE", target(merge.targetTable()));
    } else if (plan instanceof DeleteFromTable delete && delete.condition().resolved()) {
      ColocationTable table = target(delete.table());
      if (table != null && !namesPartitionsOnly(delete, table)) {
        throw table.deletesWholePartitionsOnly();
      }
    }
  }

  private static boolean namesPartitionsOnly(DeleteFromTable delete, ColocationTable table) {
    Set<String> partitions = table.loaded().shape().partitionedBy().stream()
        .map(name -> name.toLowerCase(Locale.ROOT)).collect(Collectors.toSet());
    List<Attribute> columns = CollectionConverters.asJava(delete.condition().references().toSeq());
    return columns.stream().allMatch(column -> partitions.contains(column.name().toLowerCase(Locale.ROOT)));
  }

  /** The table of ours that a statement changes; null when it changes another one. */
  private static ColocationTable target(LogicalPlan target) {
    if (target instanceof SubqueryAlias alias) {
      return target(alias.child());
    }
    return target instanceof DataSourceV2Relation relation && relation.table() instanceof ColocationTable table ? table : null;
  }

  private static void refuse(String statement, ColocationTable table) {
    if (table != null) {
      throw new ColocationException(table.name() + " does not take " + statement + ": write the changed rows anew with INSERT "
          + "OVERWRITE, of the partitions that hold them (SET spark.sql.sources.partitionOverwriteMode=dynamic) or of all of "
          + "the table").unchecked();
    }
  }
}
