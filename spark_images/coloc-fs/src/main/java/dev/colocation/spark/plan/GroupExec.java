package dev.colocation.spark.plan;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.plans.physical.Distribution;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.CodegenSupport;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * An operator of Spark whose rows come group by group, as part of its stage's generated code ({@link GroupCode}). Without generated
 * code, Spark's own operator runs, which this one contains and otherwise equals.
 */
public abstract class GroupExec<P extends SparkPlan> extends SparkPlan implements CodegenSupport, StandsFor {
  private static final long serialVersionUID = 1L;

  private final P plain;
  private transient CodegenSupport parent;
  private transient GroupCode code;

  GroupExec(P plain) {
    this.plain = plain;
  }

  /** The same in Spark's own operator, without generated code. */
  @Override
  public P plain() {
    return plain;
  }

  /** What generates the operator's code. */
  abstract GroupCode code(CodegenContext context);

  @Override
  public Seq<SparkPlan> children() {
    return plain.children();
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
    return getClass().isInstance(other);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof GroupExec<?> that && getClass() == that.getClass() && plain.equals(that.plain);
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
    return ((CodegenSupport) plain.children().head()).inputRDDs();
  }

  /** All columns, evaluated before a row comes here. */
  @Override
  public AttributeSet usedInputs() {
    return inputSet();
  }

  @Override
  public String doProduce(CodegenContext context) {
    code = code(context);
    return code.produce();
  }

  @Override
  public String doConsume(CodegenContext context, Seq<ExprCode> input, ExprCode row) {
    return code.consume(input);
  }
}
