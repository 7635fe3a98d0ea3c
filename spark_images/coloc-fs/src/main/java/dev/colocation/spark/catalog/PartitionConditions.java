package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Names;
import dev.colocation.spark.plan.Replacing;
import dev.colocation.spark.write.PartitionText;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.Unevaluable;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Conditions of partition columns in {@code DELETE}, such as {@code dt < '2026-01-01'} or {@code year(dt) = 2025}: evaluates them
 * for each partition of the snapshot, and replaces them by equalities of the matching ones.
 */
public final class PartitionConditions extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(PartitionConditions.class);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      return plan instanceof DeleteFromTable delete ? changed(delete, delete.condition()) : plan;
    } catch (LinkageError error) {
      LOG.warn("this Spark's plans are not understood; DELETE takes equalities of partition columns only", error);
      return plan;
    }
  }

  private static LogicalPlan changed(DeleteFromTable delete, Expression condition) {
    if (delete.table() instanceof DataSourceV2Relation relation && relation.table() instanceof ColocationTable table
        && !isEqualities(condition) && condition.find(PartitionConditions::isReplacedLater).isEmpty()) {
      List<Attribute> columns = CollectionConverters.asJava(condition.references().toSeq());
      List<String> partitionedBy = table.loaded().layout().partitionedBy().stream().map(Names::lowerCase).toList();
      if (columns.stream().allMatch(column -> partitionedBy.contains(Names.lowerCase(column.name())))) {
        return new DeleteFromTable(delete.table(), chosen(table.loaded(), columns, condition));
      }
    }
    return delete;
  }

  /** Whether {@link dev.colocation.spark.write.PartitionPredicates} understands the condition. */
  private static boolean isEqualities(Expression condition) {
    if (condition instanceof And || condition instanceof Or) {
      return CollectionConverters.asJava(condition.children()).stream().allMatch(PartitionConditions::isEqualities);
    }
    boolean isEquality = condition instanceof EqualTo || condition instanceof EqualNullSafe || condition instanceof In
        || condition instanceof InSet || condition instanceof IsNull || condition instanceof Literal;
    return isEquality && CollectionConverters.asJava(condition.children()).stream().allMatch(
        part -> part instanceof Attribute || part instanceof Literal);
  }

  private static Expression chosen(LoadedTable table, List<Attribute> columns, Expression condition) {
    Set<Expression> equalities = new LinkedHashSet<>();
    List<Values> others = new ArrayList<>();
    for (TablePartitions.Found partition : TablePartitions.of(table)) {
      Values values = new Values(partition);
      if (values.fulfil(condition)) {
        equalities.add(columns.stream().<Expression>map(values::equality).reduce(And::new).orElse(Literal$.MODULE$.TrueLiteral()));
      } else {
        others.add(values);
      }
    }
    Expression chosen = either(List.copyOf(equalities)).orElse(Literal$.MODULE$.FalseLiteral());
    if (columns.stream().anyMatch(column -> PartitionText.hasTwoZeros(column.dataType()))) {
      requireNoOther(table, condition, chosen, others);
    }
    return chosen;
  }

  /** See {@link PartitionText#hasTwoZeros}: a condition that tells them apart chooses one of them. */
  private static void requireNoOther(LoadedTable table, Expression condition, Expression chosen, List<Values> others) {
    if (others.stream().anyMatch(other -> other.fulfil(chosen))) {
      throw new ColocationException(table.name() + " does not take DELETE by " + condition.sql() + ", which tells 0.0 and -0.0 "
          + "apart: use ALTER TABLE … DROP PARTITION").unchecked();
    }
  }

  /** A balanced OR: an expression as deep as the number of partitions is too deep for Spark. */
  private static Optional<Expression> either(List<Expression> some) {
    if (some.size() < 2) {
      return some.stream().findFirst();
    }
    int half = some.size() / 2;
    return Optional.of(new Or(
        either(some.subList(0, half)).orElseThrow(), either(some.subList(half, some.size())).orElseThrow()));
  }

  /** One partition's values in place of its columns. */
  private record Values(TablePartitions.Found partition) {
    boolean fulfil(Expression condition) {
      return Boolean.TRUE.equals(condition.transform(Replacing.each(Attribute.class, this::literal)).eval(InternalRow.empty()));
    }

    Expression equality(Attribute column) {
      Literal value = literal(column);
      return value.value() == null ? new IsNull(column) : new EqualTo(column, value);
    }

    private Literal literal(Attribute column) {
      return new Literal(partition.value(column.name(), column.dataType()), column.dataType());
    }
  }

  /** An expression that Spark replaces later, such as a Python function. */
  private static boolean isReplacedLater(Expression part) {
    return part instanceof Unevaluable && !(part instanceof Attribute);
  }
}
