package dev.colocation.spark.plan;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.plans.physical.Distribution;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.CodegenSupport;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.SortAggregateExec;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.Option;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's sort-based aggregate, all in one phase, as part of its stage's generated code ({@link SortedAggregateCode});
 * before 4.3, Spark has that only without grouping keys.
 *
 * <p>Functions that have no generated code, or whose buffers are not of fixed size (collect_list, max of a string), run
 * in Spark's own iterator over sorted rows.
 */
public final class SortedAggregateExec extends SparkPlan implements CodegenSupport {
  private static final long serialVersionUID = 1L;

  private final SortAggregateExec plain;
  private transient CodegenSupport parent;
  private transient SortedAggregateCode code;

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
    plain = new SortAggregateExec(
        distribution, streaming, shufflePartitions, grouping, functions, results, bufferOffset, output, child);
  }

  private SortedAggregateExec(SortAggregateExec plain) {
    this.plain = plain;
  }

  /** The same in Spark's own operator, without generated code. */
  public SortAggregateExec plain() {
    return plain;
  }

  @Override
  public Seq<SparkPlan> children() {
    return plain.children();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return new SortedAggregateExec((SortAggregateExec) plain.withNewChildren(newChildren));
  }

  @Override
  public Seq<Attribute> output() {
    return plain.output();
  }

  @Override
  public AttributeSet producedAttributes() {
    return plain.producedAttributes();
  }

  @Override
  public Seq<Distribution> requiredChildDistribution() {
    return plain.requiredChildDistribution();
  }

  @Override
  public Seq<Seq<SortOrder>> requiredChildOrdering() {
    return plain.requiredChildOrdering();
  }

  @Override
  public Partitioning outputPartitioning() {
    return plain.outputPartitioning();
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return plain.outputOrdering();
  }

  @Override
  public Map<String, SQLMetric> metrics() {
    return plain.metrics();
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return plain.execute();
  }

  @Override
  public String simpleString(int maxFields) {
    return named(plain.simpleString(maxFields));
  }

  @Override
  public String verboseString(int maxFields) {
    return named(plain.verboseString(maxFields));
  }

  private String named(String description) {
    return description.replaceFirst("^" + plain.nodeName(), nodeName());
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof SortedAggregateExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof SortedAggregateExec that && plain.equals(that.plain);
  }

  @Override
  public int hashCode() {
    return plain.hashCode();
  }

  @Override
  public int productArity() {
    return plain.productArity();
  }

  @Override
  public Object productElement(int index) {
    return plain.productElement(index);
  }

  @Override
  public CodegenSupport parent() {
    return parent;
  }

  @Override
  public void parent_$eq(CodegenSupport operator) {
    parent = operator;
  }

  @Override
  public Seq<RDD<InternalRow>> inputRDDs() {
    return child().inputRDDs();
  }

  private CodegenSupport child() {
    return (CodegenSupport) plain.child();
  }

  @Override
  public boolean supportCodegen() {
    return CollectionConverters.asJava(plain.aggregateBufferAttributes()).stream()
            .allMatch(buffer -> GroupCode.isOfFixedSize(buffer.dataType()))
        && CollectionConverters.asJava(plain.aggregateExpressions()).stream()
            .allMatch(expression -> expression.aggregateFunction() instanceof DeclarativeAggregate);
  }

  /** All columns, evaluated before a row comes here. */
  @Override
  public AttributeSet usedInputs() {
    return inputSet();
  }

  @Override
  public String doProduce(CodegenContext context) {
    code = new SortedAggregateCode(this, context);
    return code.produce();
  }

  @Override
  public String doConsume(CodegenContext context, Seq<ExprCode> input, ExprCode row) {
    return code.consume(input);
  }
}
