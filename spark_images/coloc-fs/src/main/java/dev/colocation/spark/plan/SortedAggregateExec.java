package dev.colocation.spark.plan;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.SortAggregateExec;
import scala.Option;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's sort-based aggregate, all in one phase, as part of its stage's generated code ({@link SortedAggregateCode});
 * before 4.3, Spark has that only without grouping keys.
 *
 * <p>Functions that have no generated code, or whose buffers are not of fixed size (collect_list, max of a string), run
 * in Spark's own iterator over sorted rows.
 */
public final class SortedAggregateExec extends GroupExec<SortAggregateExec> {
  private static final long serialVersionUID = 1L;

  /**
   * Makes the operator, of what {@link SortAggregateExec} is made of, as Spark's transformations do.
   *
   * @param grouping plain columns of the child, in the order by which its rows are sorted
   * @param functions all in Complete mode
   */
  public SortedAggregateExec(
      Option<Seq<Expression>> distribution, boolean streaming, Option<Object> shufflePartitions,
      Seq<NamedExpression> grouping, Seq<AggregateExpression> functions, Seq<Attribute> results, int bufferOffset,
      Seq<NamedExpression> output, SparkPlan child) {
    this(new SortAggregateExec(
        distribution, streaming, shufflePartitions, grouping, functions, results, bufferOffset, output, child));
  }

  private SortedAggregateExec(SortAggregateExec plain) {
    super(plain);
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return new SortedAggregateExec((SortAggregateExec) plain().withNewChildren(newChildren));
  }

  @Override
  GroupCode code(CodegenContext context) {
    return new SortedAggregateCode(this, context);
  }

  @Override
  public boolean supportCodegen() {
    return CollectionConverters.asJava(plain().aggregateBufferAttributes()).stream()
            .allMatch(buffer -> GroupCode.isOfFixedSize(buffer.dataType()))
        && CollectionConverters.asJava(plain().aggregateExpressions()).stream()
            .allMatch(expression -> expression.aggregateFunction() instanceof DeclarativeAggregate);
  }
}
