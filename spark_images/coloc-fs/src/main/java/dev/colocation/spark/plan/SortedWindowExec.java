package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
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
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.window.WindowExec;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's window for functions that run from a partition's first row to the current one ({@code row_number}, {@code rank}, sums of
 * {@code ROWS UNBOUNDED PRECEDING}), as part of its stage's generated code ({@link SortedWindowCode}): no row is kept, where Spark's
 * operator collects each partition's rows before it computes the first value. Without generated code, Spark's operator runs.
 */
public final class SortedWindowExec extends GroupExec<WindowExec> {
  private static final long serialVersionUID = 1L;

  /** Makes the operator, of what {@link WindowExec} is made of, as Spark's transformations do. */
  public SortedWindowExec(Seq<NamedExpression> windows, Seq<Expression> partition, Seq<SortOrder> order, SparkPlan child) {
    this(new WindowExec(windows, partition, order, child));
  }

  SortedWindowExec(WindowExec plain) {
    super(plain);
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
    for (NamedExpression named : CollectionConverters.asJava(plain().windowExpression())) {
      functions.add((DeclarativeAggregate) function((WindowExpression) ((Alias) named).child()));
    }
    return functions;
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return new SortedWindowExec((WindowExec) plain().withNewChildren(newChildren));
  }

  @Override
  GroupCode code(CodegenContext context) {
    return new SortedWindowCode(this, functions(), context);
  }
}
