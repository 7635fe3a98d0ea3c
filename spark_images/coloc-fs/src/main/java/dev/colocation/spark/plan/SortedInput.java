package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.BiFunction;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.FullOuter$;
import org.apache.spark.sql.catalyst.plans.InnerLike;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import org.apache.spark.sql.execution.joins.ShuffledHashJoinExec;
import org.apache.spark.sql.execution.joins.SortMergeJoinExec;
import org.apache.spark.sql.execution.python.EvalPythonExec;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A plan whose scan at the bottom is read in the order of its files.
 *
 * <p>Invariant: every operator between the plan's top and the scan is known to keep the order of rows, and {@link
 * FileOrder} knows from the table's manifest that the files are sorted. Empty is the answer wherever something is not
 * understood.
 */
final class SortedInput {
  /** Of so many files side by side, reading them in order was measured to cost less than hash tables for their groups. */
  static final int MAX_GROUPED_FILES = 8;

  private SortedInput() {}

  /** What is known of a scan's files, for these columns of the scan. */
  private interface Finder extends BiFunction<FileSourceScanExec, List<AttributeReference>, Optional<FileOrder>> {}

  /** The plan with its rows in this order of columns, each ascending with NULL first. */
  static Optional<SparkPlan> ordered(SparkPlan plan, List<AttributeReference> order) {
    return sorted(plan, order, FileOrder::of);
  }

  /** The plan with its rows in some order of all these columns, which is its {@code outputOrdering}. */
  static Optional<SparkPlan> grouped(SparkPlan plan, List<AttributeReference> columns) {
    return sorted(plan, columns, (scan, wanted) ->
        FileOrder.inAnyOrder(scan, wanted).filter(found -> found.together() <= MAX_GROUPED_FILES));
  }

  private static Optional<SparkPlan> sorted(SparkPlan plan, List<AttributeReference> columns, Finder finder) {
    if (plan instanceof FileSourceScanExec scan) {
      return finder.apply(scan, columns).map(found -> scan(scan, found));
    }
    if (plan instanceof SortedBucketScanExec known) {
      return sorted(known.plain(), columns, finder);
    }
    if (!isDeterministic(plan)) {
      return Optional.empty();
    }
    if (plan instanceof FilterExec filter) {
      return sorted(filter.child(), columns, finder).map(child -> withChildren(filter, List.of(child)));
    }
    if (plan instanceof ProjectExec project) {
      return beforeProjection(project, columns)
          .flatMap(below -> sorted(project.child(), below, finder))
          .map(child -> withChildren(project, List.of(child)));
    }
    if (plan instanceof EvalPythonExec python && columns.stream().allMatch(python.child().outputSet()::contains)) {
      return sorted(python.child(), columns, finder).map(child -> withChildren(plan, List.of(child)));
    }
    if (plan instanceof SortExec sort && !sort.global()) {
      return sorted(sort.child(), columns, finder);
    }
    if (plan instanceof BroadcastHashJoinExec join && !join.joinType().equals(FullOuter$.MODULE$)) {
      return sortedBySide(join, join.left() == join.streamedPlan(), columns, finder);
    }
    if (plan instanceof ShuffledHashJoinExec join && keepsAll(join.joinType(), join.left() == join.streamedPlan())) {
      return sortedBySide(join, join.left() == join.streamedPlan(), columns, finder);
    }
    if (plan instanceof SortMergeJoinExec join && !join.joinType().equals(FullOuter$.MODULE$)) {
      return sortedBySide(join, !join.joinType().equals(RightOuter$.MODULE$), columns, finder)
          .filter(SortedInput::hasRequiredOrder);
    }
    return plan instanceof AlignedUnionExec union ? merged(union, columns, finder) : Optional.empty();
  }

  /** All inputs in this order, and so their merged rows. */
  private static Optional<SparkPlan> merged(AlignedUnionExec union, List<AttributeReference> columns, Finder finder) {
    List<SparkPlan> inputs = CollectionConverters.asJava(union.children());
    List<SparkPlan> sorted = inputs.stream().flatMap(input -> {
      List<AttributeReference> below = columns.stream().flatMap(column -> AlignedUnionExec.below(union, input, column).stream()).toList();
      return below.size() == columns.size() ? sorted(input, below, finder).stream() : Stream.empty();
    }).toList();
    return sorted.size() == inputs.size() ? union.merged(sorted, columns.size()) : Optional.empty();
  }

  /** What a row is must not depend on what was read before it, as input_file_name() does. */
  private static boolean isDeterministic(SparkPlan plan) {
    return CollectionConverters.asJava(plan.expressions()).stream().allMatch(Expression::deterministic);
  }

  /** Rows that come one by one may be views of their files' batches; a projection makes them what Spark's operators expect. */
  private static SparkPlan scan(FileSourceScanExec scan, FileOrder order) {
    SortedBucketScanExec sorted = new SortedBucketScanExec(scan, order);
    List<NamedExpression> all = List.copyOf(CollectionConverters.asJava(scan.output()));
    return sorted.supportsColumnar() ? sorted : new ProjectExec(CollectionConverters.asScala(all).toSeq(), sorted);
  }

  /** A join takes one row of its streamed side after the other, so that side's order is the join's, whatever it finds for a row. */
  private static Optional<SparkPlan> sortedBySide(
      SparkPlan join, boolean isLeft, List<AttributeReference> columns, Finder finder) {
    List<SparkPlan> sides = new ArrayList<>(CollectionConverters.asJava(join.children()));
    int streamed = isLeft ? 0 : 1;
    if (!columns.stream().allMatch(sides.get(streamed).outputSet()::contains)) {
      return Optional.empty();
    }
    return sorted(sides.get(streamed), columns, finder).map(child -> {
      sides.set(streamed, child);
      return withChildren(join, sides);
    });
  }

  /** Whether no row of the side that is not streamed is added at the end. */
  private static boolean keepsAll(JoinType type, boolean streamsLeft) {
    boolean keepsRight = type.equals(FullOuter$.MODULE$) || type.equals(RightOuter$.MODULE$);
    return type instanceof InnerLike || (streamsLeft ? !keepsRight : type.equals(RightOuter$.MODULE$));
  }

  /** A merge join needs its sides in the order of its keys, with which the wanted order has to begin. */
  private static boolean hasRequiredOrder(SparkPlan join) {
    return IntStream.range(0, join.children().size()).allMatch(side -> SortOrder.orderingSatisfies(
        join.children().apply(side).outputOrdering(), join.requiredChildOrdering().apply(side)));
  }

  /** The columns below a projection that stand behind its columns. */
  private static Optional<List<AttributeReference>> beforeProjection(
      ProjectExec project, List<AttributeReference> columns) {
    List<AttributeReference> found = new ArrayList<>();
    for (AttributeReference column : columns) {
      Optional<AttributeReference> below = CollectionConverters.asJava(project.projectList()).stream()
          .filter(named -> named.exprId().equals(column.exprId()))
          .findFirst()
          .flatMap(SortedInput::plainColumn);
      if (below.isEmpty()) {
        return Optional.empty();
      }
      found.add(below.get());
    }
    return Optional.of(found);
  }

  /** The column that an expression is, also under another name. */
  static Optional<AttributeReference> plainColumn(NamedExpression named) {
    Expression expression = named instanceof Alias alias ? alias.child() : (Expression) named;
    return expression instanceof AttributeReference column ? Optional.of(column) : Optional.empty();
  }

  private static SparkPlan withChildren(SparkPlan plan, List<SparkPlan> children) {
    return plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }
}
