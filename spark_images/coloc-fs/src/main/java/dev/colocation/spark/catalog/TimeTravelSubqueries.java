package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.runtime.AbstractPartialFunction;

/**
 * {@code TIMESTAMP AS OF (SELECT max(committed_at) FROM lake.shop.orders.snapshots)}: runs the subquery before the query is
 * analyzed. Spark would plan it without its optimizer, and fail with an internal error if it has a FROM.
 */
public final class TimeTravelSubqueries extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(TimeTravelSubqueries.class);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      return plan.resolveOperatorsUp(new Travelled());
    } catch (LinkageError error) {
      LOG.warn("this Spark's plans are not understood; TIMESTAMP AS OF takes no subquery", error);
      return plan;
    }
  }

  private static final class Travelled extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return node instanceof RelationTimeTravel travel && travel.timestamp().isDefined()
          && travel.relation() instanceof UnresolvedRelation relation && ColocationNames.isOurs(relation);
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      RelationTimeTravel travel = (RelationTimeTravel) node;
      Expression time = travel.timestamp().get();
      Expression known = time.transform(new Answers());
      return known == time ? node : new RelationTimeTravel(travel.relation(), Option.apply(known), travel.version());
    }
  }

  /** Replaces the subquery by its only value. */
  private static final class Answers extends AbstractPartialFunction<Expression, Expression> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(Expression part) {
      return part instanceof ScalarSubquery;
    }

    @Override
    public Expression apply(Expression part) {
      Dataset<Row> answer = Dataset.ofRows(SparkSession.active(), ((ScalarSubquery) part).plan());
      List<Row> rows = answer.limit(2).collectAsList();
      if (rows.size() != 1 || answer.schema().size() != 1 || rows.get(0).isNullAt(0)) {
        throw new ColocationException("the subquery of TIMESTAMP AS OF gives " + said(rows, answer.schema().size())
            + "; allowed: one time, such as SELECT max(committed_at) FROM <table>.snapshots WHERE …").unchecked();
      }
      return new Literal(CatalystTypeConverters.convertToCatalyst(rows.get(0).get(0)), answer.schema().apply(0).dataType());
    }

    private static String said(List<Row> rows, int columns) {
      if (columns != 1) {
        return columns + " columns";
      }
      return rows.isEmpty() ? "no row" : rows.size() == 1 ? "NULL" : "several rows";
    }
  }
}
