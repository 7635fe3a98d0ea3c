package dev.colocation.spark.catalog;

import dev.colocation.spark.explain.KnownTable;
import dev.colocation.spark.explain.Reasons;
import dev.colocation.spark.fs.ColocPath;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.jdk.javaapi.CollectionConverters;

/** Whether the source of a MERGE may be read several times, where its rows are; and why not, in the words of verdicts on joins. */
final class RepeatableSource {
  /** Nodes that give the same rows for the same rows, however their tasks are scheduled, unless rows are shuffled below them. */
  private static final Set<String> REPEATABLE = Set.of(
      "Project", "Filter", "Join", "Aggregate", "Window", "SubqueryAlias", "View", "Sort", "Distinct", "Expand");

  private RepeatableSource() {}

  /** Why a plan may give other rows when it is read again, even if no row is shuffled; empty when it gives the same. */
  static String whyNot(LogicalPlan plan) {
    List<LogicalPlan> children = CollectionConverters.asJava(plan.children());
    return first(Stream.of(
        Stream.of(children.isEmpty() ? ofLeaf(plan) : REPEATABLE.contains(plan.getClass().getSimpleName()) ? "" : changing(plan.nodeName())),
        CollectionConverters.asJava(plan.expressions()).stream().map(RepeatableSource::whyNot),
        children.stream().map(RepeatableSource::whyNot)).flatMap(reasons -> reasons));
  }

  private static String ofLeaf(LogicalPlan leaf) {
    return leaf instanceof LogicalRelation logical && logical.relation() instanceof HadoopFsRelation files && ColocPath.isRootOf(files)
        ? "" : Reasons.NO_GROUP + ": rows of the source (" + leaf.nodeName() + ") are not of a ColocatedTable";
  }

  /** Users may call functions deterministic that are not. */
  private static String whyNot(Expression expression) {
    boolean mayChange = !expression.deterministic() || expression instanceof UserDefinedExpression;
    return first(Stream.of(
        expression instanceof SubqueryExpression subquery ? Stream.of(whyNot(subquery.plan())) : Stream.<String>of(),
        CollectionConverters.asJava(expression.children()).stream().map(RepeatableSource::whyNot),
        Stream.of(mayChange ? changing(expression.sql()) : "")).flatMap(reasons -> reasons));
  }

  private static String changing(String what) {
    return Reasons.REDISTRIBUTED + ": the source may have other rows when it is read again (" + what + ")";
  }

  private static String first(Stream<String> reasons) {
    return reasons.filter(reason -> !reason.isEmpty()).findFirst().orElse("");
  }

  /**
   * Why a source does not lie in the target's buckets.
   *
   * @param keys what the target's bucket key is compared with; empty when it is not compared
   * @param group of the target
   */
  static String whyElsewhere(LogicalPlan source, List<Expression> keys, String group) {
    String changes = whyNot(source);
    if (!changes.isEmpty()) {
      return changes;
    }
    List<KnownTable> tables = CollectionConverters.asJava(source.collectLeaves()).stream()
        .map(leaf -> KnownTable.of((HadoopFsRelation) ((LogicalRelation) leaf).relation()).orElseThrow()).toList();
    String columns = keys.stream().map(Expression::sql).collect(Collectors.joining(", "));
    return first(Stream.of(
        tables.stream().filter(table -> !table.group().equals(group)).map(table -> Reasons.NO_GROUP + ": " + table.place()),
        tables.stream().filter(table -> !table.bucketed()).map(KnownTable::reason),
        Stream.of(Reasons.INCONSISTENT + ": the source does not lie in buckets by (" + columns + ")"))
        .flatMap(reasons -> reasons));
  }
}
