package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.runtime.AbstractPartialFunction;

/**
 * {@code SELECT … FROM t CHANGES FROM VERSION a TO VERSION b} and {@code spark.read.changes(t)} of Spark 4.2 and newer, and reads
 * with option {@code readChangeFeed} of every Spark: puts a relation over the files of these commits in the place of the table,
 * before Spark asks the catalog for a reader of its own.
 */
public final class ChangesAsFiles extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(ChangesAsFiles.class);

  /** A class that the oldest supported Spark lacks. */
  private static final String CHANGES = "RelationChanges";

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      return plan.resolveOperatorsUp(new Replacement());
    } catch (LinkageError error) {
      LOG.warn("this Spark's plans are not understood; tables of a ColocationCatalog have no CHANGES", error);
      return plan;
    }
  }

  private static final class Replacement extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return read(node) instanceof UnresolvedRelation relation && ColocationNames.isOurs(relation);
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      UnresolvedRelation relation = (UnresolvedRelation) read(node);
      ColocationNames.InCatalog table = ColocationNames.inCatalog(relation);
      if (relation.isStreaming()) {
        throw new ColocationException("CHANGES of " + table + " cannot be read as a stream. spark.readStream.option('"
            + StreamOptions.VERSION + "', …).table('" + table + "') gives the rows that commits append").unchecked();
      }
      OptionsOfReads.takeChanges(table.toString(), relation.options());
      try {
        return table.catalog().changes(table.parts(), node == relation
            ? ChangesRequest.of(relation.options()) : ChangesRequest.of(node.productElement(1)));
      } catch (NoSuchTableException absent) {
        throw ColocationException.unchecked(absent);
      }
    }

    /** The relation whose changes a node gives; null = it gives none. */
    private static Object read(LogicalPlan node) {
      if (node instanceof UnresolvedRelation relation) {
        return !relation.isStreaming() && ChangesRequest.isIn(relation.options()) ? relation : null;
      }
      return node.nodeName().equals(CHANGES) ? node.productElement(0) : null;
    }
  }
}
