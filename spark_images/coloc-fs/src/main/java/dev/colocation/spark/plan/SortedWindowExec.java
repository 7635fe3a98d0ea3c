package dev.colocation.spark.plan;

import dev.colocation.spark.plan.WindowValue.Known;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.RankLike;
import org.apache.spark.sql.catalyst.expressions.RowNumberLike;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.window.WindowExec;
import org.apache.spark.sql.execution.window.WindowGroupLimitExec;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's window as part of its stage's generated code. Of functions that run from a partition's first row to the current one ({@code
 * row_number}, {@code rank}, sums of {@code ROWS UNBOUNDED PRECEDING}, {@code lag}) no row is kept ({@link SortedWindowCode}), where
 * Spark's operator collects each partition's rows before it computes the first value. Those of a whole partition, those of rows of equal
 * order, {@code ntile} and {@code lead} keep rows as long as they wait for their values ({@link WaitingWindowCode}). Without generated code, Spark's
 * operator runs.
 */
public final class SortedWindowExec extends GroupExec<WindowExec> {
  private static final long serialVersionUID = 1L;

  /** Makes the operator, of what {@link WindowExec} is made of, as Spark's transformations do. */
  public SortedWindowExec(Seq<NamedExpression> windows, Seq<Expression> partition, Seq<SortOrder> order, SparkPlan child) {
    this(new WindowExec(windows, partition, order, child));
  }

  private SortedWindowExec(WindowExec plain) {
    super(plain);
  }

  /**
   * A window in generated code; empty where that is not possible. Its partitions are distinguished by plain columns whose equal values
   * have the same bytes; so are rows of equal order.
   */
  static Optional<SparkPlan> of(WindowExec window) {
    List<Optional<WindowValue>> values = CollectionConverters.asJava(window.windowExpression()).stream().map(WindowValue::of).toList();
    if (window.partitionSpec().isEmpty() || !CollectionConverters.asJava(window.partitionSpec()).stream().allMatch(SortedWindowExec::isKey)
        || values.contains(Optional.<WindowValue>empty())) {
      return Optional.empty();
    }
    List<Known> known = values.stream().map(value -> value.orElseThrow().known()).distinct().toList();
    boolean arePeersKeys = CollectionConverters.asJava(window.orderSpec()).stream().map(SortOrder::child).allMatch(SortedWindowExec::isKey);
    return known.contains(Known.AT_PEERS_END) && (known.contains(Known.AT_PARTITION_END) || !arePeersKeys)
        ? Optional.empty() : Optional.of(new SortedWindowExec(withoutLimit(window)));
  }

  private static boolean isKey(Expression key) {
    return key instanceof AttributeReference && FileOrder.isOrdered(key.dataType());
  }

  /**
   * Spark leaves out rows below a window of which a filter above it takes the first ones. Numbering them, and leaving them out there,
   * costs less. Not where a function could fail, or has to be computed, for the rows that are left out.
   */
  private static WindowExec withoutLimit(WindowExec window) {
    return window.child() instanceof WindowGroupLimitExec limit && limit.partitionSpec().equals(window.partitionSpec())
        && limit.orderSpec().equals(window.orderSpec())
        && values(window).stream().allMatch(value -> value instanceof WindowValue.Aggregated one && isRank(one.function()))
            ? (WindowExec) window.withNewChildren(CollectionConverters.asScala(List.<SparkPlan>of(limit.child())).toSeq()) : window;
  }

  private static boolean isRank(Expression function) {
    return function instanceof RowNumberLike || function instanceof RankLike;
  }

  private static List<WindowValue> values(WindowExec window) {
    return CollectionConverters.asJava(window.windowExpression()).stream().map(named -> WindowValue.of(named).orElseThrow()).toList();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return new SortedWindowExec((WindowExec) plain().withNewChildren(newChildren));
  }

  @Override
  GroupCode code(CodegenContext context) {
    List<WindowValue> values = values(plain());
    return values.stream().allMatch(value -> value.known() == Known.AT_ROW)
        ? new SortedWindowCode(this, values, context) : new WaitingWindowCode(this, values, context);
  }
}
