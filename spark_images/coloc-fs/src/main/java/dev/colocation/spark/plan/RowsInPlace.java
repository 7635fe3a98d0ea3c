package dev.colocation.spark.plan;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.IntStream;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.BaseEvalPython;
import org.apache.spark.sql.catalyst.plans.logical.BaseEvalPythonUDTF;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.ExpandExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkPlanner;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Keeps shuffles away above functions of Python and above {@code Expand} (several {@code count(DISTINCT …)}, {@code UNPIVOT}, {@code
 * GROUPING SETS}). Their rows stay in the partitions that they come from, and most columns stay what they are; Spark's operators do not
 * say so, and a join or group-by above them would shuffle.
 */
public final class RowsInPlace extends SparkStrategy {
  private final transient SparkSession session;

  /** For plans of a session. */
  public RowsInPlace(SparkSession session) {
    this.session = session;
  }

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    return UnknownSpark.orAsPlanned(sequence(List.of()), nothing -> planned(plan));
  }

  private Seq<SparkPlan> planned(LogicalPlan plan) {
    if (!isInPlace(plan) || !hasBuckets(plan)) {
      return sequence(List.of());
    }
    SparkPlanner planner = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().planner();
    Seq<SparkPlan> known = plan instanceof Expand ? planner.BasicOperators().apply(plan) : planner.PythonEvals().apply(plan);
    return sequence(CollectionConverters.asJava(known).stream().<SparkPlan>map(RowsInPlaceExec::new).toList());
  }

  private static boolean isInPlace(LogicalPlan plan) {
    return plan instanceof Expand || plan instanceof BaseEvalPython || plan instanceof BaseEvalPythonUDTF;
  }

  /** Whether a table of ours is read by its buckets. */
  static boolean hasBuckets(LogicalPlan plan) {
    return CollectionConverters.asJava(plan.collectLeaves()).stream().anyMatch(leaf -> CommonBuckets.files(leaf).isPresent());
  }

  /** The columns of an {@code Expand} that have a column's value in all rows which it makes of one: the first name, and the last. */
  public static List<Map<ExprId, Attribute>> kept(ExpandExec expand) {
    List<Attribute> output = CollectionConverters.asJava(expand.output());
    List<List<Expression>> rows =
        CollectionConverters.asJava(expand.projections()).stream().map(CollectionConverters::asJava).toList();
    Map<ExprId, Attribute> first = new HashMap<>();
    Map<ExprId, Attribute> last = new HashMap<>();
    IntStream.range(0, output.size()).forEach(place -> {
      List<Optional<ExprId>> columns = rows.stream().map(row -> column(row.get(place))).distinct().toList();
      if (columns.size() == 1 && columns.get(0).isPresent()) {
        first.putIfAbsent(columns.get(0).get(), output.get(place));
        last.put(columns.get(0).get(), output.get(place));
      }
    });
    return List.of(first, last);
  }

  private static Optional<ExprId> column(Expression expression) {
    return expression instanceof Attribute attribute ? Optional.of(attribute.exprId()) : Optional.empty();
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }

  /** An operator whose rows are distributed as those below it, by the columns that it keeps. */
  private static final class RowsInPlaceExec extends WhilePlannedExec {
    private static final long serialVersionUID = 1L;

    RowsInPlaceExec(SparkPlan known) {
      super(known);
    }

    @Override
    RowsInPlaceExec of(SparkPlan other) {
      return new RowsInPlaceExec(other);
    }

    @Override
    public Partitioning outputPartitioning() {
      SparkPlan below = plain().children().head();
      return any(names().stream().flatMap(names -> hashes(below.outputPartitioning()).flatMap(hash -> renamed(hash, names)))
          .distinct().toList(), plain().outputPartitioning());
    }

    private List<Map<ExprId, Attribute>> names() {
      if (plain() instanceof ExpandExec expand) {
        return kept(expand);
      }
      Map<ExprId, Attribute> same = new HashMap<>();
      CollectionConverters.asJava(plain().output()).forEach(column -> same.put(column.exprId(), column));
      return List.of(same);
    }
  }
}
