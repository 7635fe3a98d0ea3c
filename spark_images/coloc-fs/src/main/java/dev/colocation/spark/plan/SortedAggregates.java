package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateMode;
import org.apache.spark.sql.catalyst.expressions.aggregate.Complete$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Final$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Partial$;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One {@link SortedAggregateExec} in place of a partial and a final aggregate directly on top of each other, when
 * the rows below them come sorted by the grouping keys.
 *
 * <p>Spark plans aggregates in two phases, because usually a shuffle comes in between. Over a bucketed scan none does,
 * and then all rows of a group are in one partition: where they are also contiguous, one phase that remembers a single
 * group is enough.
 *
 * <p>Invariant: the grouping keys are plain columns of types whose order in files is also the query's, the rows below are
 * sorted by exactly these keys in some order, and both phases compute the same functions, none DISTINCT.
 */
final class SortedAggregates {
  private SortedAggregates() {}

  /** What computes the same as this aggregate and, if they are two phases, the one below it; empty if nothing does. */
  static Optional<SparkPlan> replacing(BaseAggregateExec top) {
    BaseAggregateExec bottom = top;
    if (top.child() instanceof BaseAggregateExec below && arePhases(below, top)) {
      bottom = below;
    } else if (!isOnlyPhase(top)) {
      return Optional.empty();
    }
    return sorted(bottom, top);
  }

  /** Whether the plan reads sorted files. */
  static boolean isOverSortedFiles(SparkPlan plan) {
    return CollectionConverters.asJava(plan.collectLeaves()).stream().anyMatch(SortedBucketScanExec.class::isInstance);
  }

  private static Optional<SparkPlan> sorted(BaseAggregateExec bottom, BaseAggregateExec top) {
    Optional<List<AttributeReference>> keys = keys(bottom);
    if (keys.isEmpty() || top.isStreaming() || bottom.isStreaming()) {
      return Optional.empty();
    }
    SparkPlan rows = bottom.child() instanceof SortExec sort && !sort.global() ? sort.child() : bottom.child();
    SparkPlan input = SortedInput.grouped(rows, keys.get()).orElse(bottom.child());
    if (!isOverSortedFiles(input)) {
      return Optional.empty();
    }
    return inOrderOf(input, keys.get()).map(arranged -> combined(bottom, top, arranged, input));
  }

  private static Optional<List<AttributeReference>> keys(BaseAggregateExec aggregate) {
    List<AttributeReference> keys = new ArrayList<>();
    for (NamedExpression key : CollectionConverters.asJava(aggregate.groupingExpressions())) {
      if (!(key instanceof AttributeReference column) || !FileOrder.isOrdered(column.dataType())) {
        return Optional.empty();
      }
      keys.add(column);
    }
    return keys.isEmpty() ? Optional.empty() : Optional.of(keys);
  }

  /** The keys as the plan's rows are sorted by them first; empty when they are not. */
  private static Optional<List<AttributeReference>> inOrderOf(SparkPlan plan, List<AttributeReference> keys) {
    List<SortOrder> order = CollectionConverters.asJava(plan.outputOrdering());
    List<AttributeReference> left = new ArrayList<>(keys);
    List<AttributeReference> arranged = new ArrayList<>();
    for (SortOrder one : order.subList(0, Math.min(order.size(), keys.size()))) {
      Optional<AttributeReference> key = left.stream().filter(candidate -> isSortedBy(one, candidate)).findFirst();
      if (key.isEmpty()) {
        return Optional.empty();
      }
      left.remove(key.get());
      arranged.add(key.get());
    }
    return left.isEmpty() ? Optional.of(arranged) : Optional.empty();
  }

  private static boolean isSortedBy(SortOrder order, AttributeReference key) {
    return order.direction() == Ascending$.MODULE$ && order.nullOrdering() == NullsFirst$.MODULE$
        && CollectionConverters.asJava(order.children()).stream().anyMatch(key::semanticEquals);
  }

  private static boolean arePhases(BaseAggregateExec partial, BaseAggregateExec last) {
    return partial.requiredChildDistributionExpressions().isEmpty()
        && last.requiredChildDistributionExpressions().isDefined()
        && haveMode(partial, Partial$.MODULE$)
        && haveMode(last, Final$.MODULE$)
        && ids(partial).equals(ids(last))
        && keyIds(partial).equals(keyIds(last));
  }

  /** One phase for all: planned so by Spark 4.3, or a duplicate removal above a shuffle or an aggregate. */
  private static boolean isOnlyPhase(BaseAggregateExec aggregate) {
    return aggregate.requiredChildDistributionExpressions().isDefined() && haveMode(aggregate, Complete$.MODULE$);
  }

  private static boolean haveMode(BaseAggregateExec aggregate, AggregateMode mode) {
    return CollectionConverters.asJava(aggregate.aggregateExpressions()).stream()
        .allMatch(function -> function.mode() == mode && !function.isDistinct());
  }

  private static List<Object> ids(BaseAggregateExec aggregate) {
    return List.copyOf(CollectionConverters.asJava(aggregate.aggregateExpressions()).stream()
        .map(AggregateExpression::resultId)
        .toList());
  }

  private static List<Object> keyIds(BaseAggregateExec aggregate) {
    return List.copyOf(CollectionConverters.asJava(aggregate.groupingExpressions()).stream()
        .map(NamedExpression::exprId)
        .toList());
  }

  /** Reads what the first phase reads, gives what the last one gives. */
  private static SparkPlan combined(
      BaseAggregateExec bottom, BaseAggregateExec top, List<AttributeReference> keys, SparkPlan input) {
    List<AggregateExpression> functions = CollectionConverters.asJava(bottom.aggregateExpressions()).stream()
        .map(function -> function.copy(function.aggregateFunction(), Complete$.MODULE$, function.isDistinct(),
            function.filter(), function.resultId()))
        .toList();
    SortedAggregateExec combined = new SortedAggregateExec(
        Option.apply(CollectionConverters.asScala(List.<Expression>copyOf(keys)).toSeq()),
        false,
        top.numShufflePartitions(),
        CollectionConverters.asScala(List.<NamedExpression>copyOf(keys)).toSeq(),
        CollectionConverters.asScala(functions).toSeq(),
        top.aggregateAttributes(),
        0,
        top.resultExpressions(),
        input);
    combined.copyTagsFrom((SparkPlan) top);
    combined.plain().copyTagsFrom((SparkPlan) top);
    return combined;
  }
}
