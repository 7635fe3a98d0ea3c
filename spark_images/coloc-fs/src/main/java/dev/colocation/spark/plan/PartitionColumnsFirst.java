package dev.colocation.spark.plan;

import dev.colocation.spark.fs.ColocPath;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Puts the equalities of partition columns first in a join's condition. A merge join wants its rows in the order of its keys:
 * by partition column and then key, a bucket's files give that order one after the other; the other way round they would have
 * to be merged. What a condition means does not depend on the order of its parts.
 */
public final class PartitionColumnsFirst extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return UnknownSpark.orAsPlanned(plan, PartitionColumnsFirst::ordered);
  }

  private static LogicalPlan ordered(LogicalPlan plan) {
    Set<ExprId> partitionColumns = new HashSet<>();
    CollectionConverters.asJava(plan.collectLeaves()).forEach(leaf -> addPartitionColumns(leaf, partitionColumns));
    return partitionColumns.isEmpty() ? plan : plan.transformUp(
        Replacing.each(Join.class, join -> reordered(join, partitionColumns)));
  }

  private static void addPartitionColumns(LogicalPlan leaf, Set<ExprId> found) {
    if (leaf instanceof LogicalRelation logical && logical.relation() instanceof HadoopFsRelation relation
        && ColocPath.isRootOf(relation)) {
      Set<String> names = Set.of(relation.partitionSchema().fieldNames());
      CollectionConverters.asJava(logical.output()).stream()
          .filter(column -> names.contains(column.name()))
          .map(Attribute::exprId)
          .forEach(found::add);
    }
  }

  private static LogicalPlan reordered(Join join, Set<ExprId> partitionColumns) {
    return join.condition().exists(Expression::deterministic)
        ? join.mapExpressions(condition -> reordered(condition, partitionColumns)) : join;
  }

  private static Expression reordered(Expression condition, Set<ExprId> partitionColumns) {
    Predicate<Expression> isPartition = part -> part instanceof EqualTo equality
        && isIn(partitionColumns, equality.left()) && isIn(partitionColumns, equality.right());
    List<Expression> parts = parts(condition).toList();
    List<Expression> ordered = new ArrayList<>(parts.stream().filter(isPartition).toList());
    parts.stream().filter(isPartition.negate()).forEach(ordered::add);
    return ordered.equals(parts) ? condition : ordered.stream().reduce(And::new).orElseThrow();
  }

  private static Stream<Expression> parts(Expression condition) {
    return condition instanceof And and
        ? Stream.concat(parts(and.left()), parts(and.right()))
        : Stream.of(condition);
  }

  private static boolean isIn(Set<ExprId> columns, Expression side) {
    return side instanceof AttributeReference column && columns.contains(column.exprId());
  }
}
