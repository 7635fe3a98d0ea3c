package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** {@code SELECT … CHANGES FROM VERSION a TO b}, which newer versions of Spark parse, names its substitute. */
public final class RefusedChanges extends Rule<LogicalPlan> {
  /** A class that the oldest supported Spark lacks. */
  private static final String CHANGES = "RelationChanges";

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperatorsUp(new Refused());
  }

  private static final class Refused extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return node.nodeName().equals(CHANGES) && node.productElement(0) instanceof UnresolvedRelation relation
          && OwnNames.isOurs(relation);
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      UnresolvedRelation relation = (UnresolvedRelation) node.productElement(0);
      String table = String.join(".", CollectionConverters.asJava(relation.multipartIdentifier()));
      throw new ColocationException(table + " does not take CHANGES. For appended rows, use spark.readStream.option('"
          + StreamOptions.VERSION + "', …).table('" + table + "') with the trigger availableNow; to compare snapshots, VERSION AS OF")
          .unchecked();
    }
  }
}
