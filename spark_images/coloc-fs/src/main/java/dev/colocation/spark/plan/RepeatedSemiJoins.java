package dev.colocation.spark.plan;

import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.joins.BaseJoinExec;
import org.apache.spark.sql.execution.joins.SortMergeJoinExec;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Filters one side of a join where Spark filters both by the same semi-join: rows of the right side whose key is none of the left
 * side's match nothing anyway. Spark applies {@code k IN (SELECT …)} to both sides of a join by {@code k}, so that the subquery's
 * tables are read and grouped twice (TPC-H's query 18).
 */
final class RepeatedSemiJoins {
  /** Joins without a row for what is on the right side only. */
  private static final Set<JoinType> OF_THE_LEFT = Set.of(Inner$.MODULE$, LeftOuter$.MODULE$, LeftSemi$.MODULE$, LeftAnti$.MODULE$);

  private RepeatedSemiJoins() {}

  /** The plan as Spark made it, without what its joins do twice. */
  static SparkPlan once(SparkPlan plan) {
    return plan.transformUp(Replacing.each(SortMergeJoinExec.class, RepeatedSemiJoins::once));
  }

  /** The join without the semi-joins on its right side that its left side has, too. */
  private static SparkPlan once(SortMergeJoinExec join) {
    if (!OF_THE_LEFT.contains(join.joinType())) {
      return join;
    }
    List<SortMergeJoinExec> known = semiJoins(join.left()).toList();
    SparkPlan right = known.isEmpty() ? join.right() : without(join.right(), join, known);
    return right == join.right() ? join : join.withNewChildren(sequence(List.of(join.left(), right)));
  }

  /** Those that hold for all rows of a plan. */
  private static Stream<SortMergeJoinExec> semiJoins(SparkPlan plan) {
    if (plan instanceof ProjectExec || plan instanceof FilterExec || plan instanceof SortExec) {
      return semiJoins(plan.children().apply(0));
    }
    if (!(plan instanceof BaseJoinExec join) || !OF_THE_LEFT.contains(join.joinType())) {
      return Stream.empty();
    }
    Stream<SortMergeJoinExec> below = join.joinType() == Inner$.MODULE$
        ? Stream.concat(semiJoins(join.left()), semiJoins(join.right())) : semiJoins(join.left());
    return plan instanceof SortMergeJoinExec semi && isPlain(semi) ? Stream.concat(Stream.of(semi), below) : below;
  }

  private static boolean isPlain(SortMergeJoinExec join) {
    return join.joinType() == LeftSemi$.MODULE$ && join.condition().isEmpty() && !join.isSkewJoin();
  }

  private static SparkPlan without(SparkPlan plan, SortMergeJoinExec join, List<SortMergeJoinExec> known) {
    if (plan instanceof ProjectExec project
        && CollectionConverters.asJava(project.projectList()).stream().allMatch(Attribute.class::isInstance)) {
      SparkPlan child = without(project.child(), join, known);
      return child == project.child() ? plan : plan.withNewChildren(sequence(List.of(child)));
    }
    return plan instanceof SortMergeJoinExec semi && isPlain(semi) && known.stream().anyMatch(one -> isSame(join, one, semi))
        ? without(semi.left(), join, known) : plan;
  }

  /** Whether a row of the right side that fulfils the join fulfils its semi-join because its match does. */
  private static boolean isSame(SortMergeJoinExec join, SortMergeJoinExec left, SortMergeJoinExec right) {
    return left.leftKeys().size() == right.leftKeys().size() && left.right().sameResult(right.right())
        && IntStream.range(0, left.leftKeys().size()).allMatch(key ->
            areJoined(join, left.leftKeys().apply(key), right.leftKeys().apply(key))
                && place(left, key) >= 0 && place(left, key) == place(right, key));
  }

  private static boolean areJoined(SortMergeJoinExec join, Expression left, Expression right) {
    return IntStream.range(0, join.leftKeys().size()).anyMatch(key ->
        join.leftKeys().apply(key).semanticEquals(left) && join.rightKeys().apply(key).semanticEquals(right));
  }

  /** Of a key among the columns of what the semi-join looks in; -1 for a computed one. */
  private static int place(SortMergeJoinExec semi, int key) {
    List<Attribute> columns = CollectionConverters.asJava(semi.right().output());
    return semi.rightKeys().apply(key) instanceof Attribute column
        ? columns.stream().map(Attribute::exprId).toList().indexOf(column.exprId()) : -1;
  }

  private static Seq<SparkPlan> sequence(List<SparkPlan> plans) {
    return CollectionConverters.asScala(plans).toSeq();
  }
}
