package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.FullOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkPlanner;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.joins.ShuffledJoin;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Keeps shuffles away from joins by {@code a.k <=> b.k}, which {@code INTERSECT} and {@code EXCEPT} are, too, and from what is above a
 * {@code FULL JOIN … USING (k)}: {@link JoinInPlaceExec} tells the planner what it does not know of them.
 */
public final class JoinsInPlace extends SparkStrategy {
  private final transient SparkSession session;

  /** For plans of a session. */
  public JoinsInPlace(SparkSession session) {
    this.session = session;
  }

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    return UnknownSpark.orAsPlanned(sequence(List.of()),
        nothing -> plan instanceof Join join && isOne(join) && RowsInPlace.hasBuckets(join) ? planned(join) : nothing);
  }

  /**
   * What a join compares.
   *
   * @param nullSafe whether by {@code <=>}, for which Spark's keys are two pairs
   */
  public record Compared(Expression left, Expression right, boolean nullSafe) {
    private boolean isFirstOf(Expression leftColumn, Expression rightColumn) {
      return !nullSafe && isWithoutNull(left, leftColumn) && isWithoutNull(right, rightColumn);
    }

    private static boolean isWithoutNull(Expression key, Expression column) {
      return key instanceof Coalesce && key.children().size() == 2
          && key.children().head().semanticEquals(column) && key.children().last() instanceof Literal;
    }
  }

  /** What a join compares, by Spark's keys of both sides. */
  public static List<Compared> compared(Seq<Expression> leftKeys, Seq<Expression> rightKeys) {
    List<Compared> found = new ArrayList<>();
    for (int place = 0; place < leftKeys.size(); place++) {
      int last = found.size() - 1;
      if (leftKeys.apply(place) instanceof IsNull left && rightKeys.apply(place) instanceof IsNull right
          && last >= 0 && found.get(last).isFirstOf(left.child(), right.child())) {
        found.set(last, new Compared(left.child(), right.child(), true));
      } else {
        found.add(new Compared(leftKeys.apply(place), rightKeys.apply(place), false));
      }
    }
    return found;
  }

  private static boolean isOne(Join join) {
    return join.joinType() == FullOuter$.MODULE$ || join.condition().exists(condition -> condition.exists(EqualNullSafe.class::isInstance));
  }

  private Seq<SparkPlan> planned(Join join) {
    SparkPlanner planner = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().planner();
    return sequence(CollectionConverters.asJava(planner.JoinSelection().apply(join)).stream()
        .map(known -> known instanceof ShuffledJoin ? new JoinInPlaceExec(known) : known).toList());
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
