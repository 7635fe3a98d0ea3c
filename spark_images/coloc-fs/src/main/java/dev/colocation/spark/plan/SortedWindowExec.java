package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.CurrentRow$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.RowFrame$;
import org.apache.spark.sql.catalyst.expressions.SizeBasedWindowFunction;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.SpecifiedWindowFrame;
import org.apache.spark.sql.catalyst.expressions.UnboundedPreceding$;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.expressions.WindowFrame;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.plans.physical.Distribution;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.CodegenSupport;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.window.WindowExec;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's window for functions that run from a partition's first row to the current one ({@code row_number}, {@code rank}, sums of
 * {@code ROWS UNBOUNDED PRECEDING}), as part of its stage's generated code ({@link SortedWindowCode}): no row is kept, where Spark's
 * operator collects each partition's rows before it computes the first value. Without generated code, Spark's operator runs.
 */
public final class SortedWindowExec extends SparkPlan implements CodegenSupport {
  private static final long serialVersionUID = 1L;

  private final WindowExec plain;
  private transient CodegenSupport parent;
  private transient SortedWindowCode code;

  /** Makes the operator, of what {@link WindowExec} is made of, as Spark's transformations do. */
  public SortedWindowExec(Seq<NamedExpression> windows, Seq<Expression> partition, Seq<SortOrder> order, SparkPlan child) {
    this(new WindowExec(windows, partition, order, child));
  }

  SortedWindowExec(WindowExec plain) {
    this.plain = plain;
  }

  /** Whether a window can run so. Its partitions are distinguished by plain columns whose equal values have the same bytes. */
  static boolean isPossible(WindowExec window) {
    return !window.partitionSpec().isEmpty()
        && CollectionConverters.asJava(window.partitionSpec()).stream()
            .allMatch(key -> key instanceof AttributeReference && FileOrder.isOrdered(key.dataType()))
        && CollectionConverters.asJava(window.windowExpression()).stream().allMatch(SortedWindowExec::isPossible);
  }

  private static boolean isPossible(NamedExpression named) {
    if (!(named instanceof Alias alias && alias.child() instanceof WindowExpression window
        && isUpToCurrentRow(window.windowSpec().frameSpecification()))) {
      return false;
    }
    Expression function = function(window);
    boolean isWhole = !(window.windowFunction() instanceof AggregateExpression aggregate)
        || aggregate.filter().isEmpty() && !aggregate.isDistinct();
    return isWhole && function instanceof DeclarativeAggregate declared && !(function instanceof SizeBasedWindowFunction)
        && CollectionConverters.asJava(declared.aggBufferAttributes()).stream()
            .allMatch(buffer -> GroupCode.isOfFixedSize(buffer.dataType()));
  }

  private static boolean isUpToCurrentRow(WindowFrame frame) {
    return frame instanceof SpecifiedWindowFrame rows && rows.frameType() == RowFrame$.MODULE$
        && rows.lower() == UnboundedPreceding$.MODULE$ && rows.upper() == CurrentRow$.MODULE$;
  }

  private static Expression function(WindowExpression window) {
    return window.windowFunction() instanceof AggregateExpression aggregate ? aggregate.aggregateFunction() : window.windowFunction();
  }

  private List<DeclarativeAggregate> functions() {
    List<DeclarativeAggregate> functions = new ArrayList<>();
    for (NamedExpression named : CollectionConverters.asJava(plain.windowExpression())) {
      functions.add((DeclarativeAggregate) function((WindowExpression) ((Alias) named).child()));
    }
    return functions;
  }

  /** The same in Spark's own operator, without generated code. */
  public WindowExec plain() {
    return plain;
  }

  @Override
  public Seq<SparkPlan> children() {
    return plain.children();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return new SortedWindowExec((WindowExec) plain.withNewChildren(newChildren));
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
    return other instanceof SortedWindowExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof SortedWindowExec that && plain.equals(that.plain);
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
    return ((CodegenSupport) plain.child()).inputRDDs();
  }

  /** All columns, evaluated before a row comes here. */
  @Override
  public AttributeSet usedInputs() {
    return inputSet();
  }

  @Override
  public String doProduce(CodegenContext context) {
    code = new SortedWindowCode(this, functions(), context);
    return code.produce();
  }

  @Override
  public String doConsume(CodegenContext context, Seq<ExprCode> input, ExprCode row) {
    return code.consume(input);
  }
}
