package dev.colocation.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.FullOuter$;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Takes away the sort above a bucketed scan of a colocated table when the bucket's files, read in the right order or merged,
 * give that order anyway. Loads write sorted files, but Spark trusts them only where a bucket has a single one.
 *
 * <p>Invariant: a sort goes only when every operator between it and the scan is known to keep the order of rows, and {@link
 * FileOrder} knows from the table's manifest that the files are sorted. Whatever is not understood stays as Spark planned it.
 */
final class TrustSortedFiles extends Rule<SparkPlan> {
  /** Session switch; {@code false} leaves all sorts in place. */
  static final String SWITCH = "spark.colocation.trustSortedFiles";

  @Override
  public SparkPlan apply(SparkPlan plan) {
    if (!conf().getConfString(SWITCH, "true").equalsIgnoreCase("true")) {
      return plan;
    }
    return plan.transformUp(new RemoveSorts());
  }

  private static final class RemoveSorts extends AbstractPartialFunction<SparkPlan, SparkPlan> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(SparkPlan node) {
      return node instanceof SortExec sort && !sort.global();
    }

    @Override
    public SparkPlan apply(SparkPlan node) {
      return withoutSort((SortExec) node).orElse(node);
    }
  }

  private static Optional<SparkPlan> withoutSort(SortExec sort) {
    return columns(sort.sortOrder()).flatMap(columns -> ordered(sort.child(), columns));
  }

  /** The columns of an order, when it is one of plain columns, each ascending with NULL first. */
  private static Optional<List<AttributeReference>> columns(scala.collection.immutable.Seq<SortOrder> order) {
    List<AttributeReference> columns = new ArrayList<>();
    for (SortOrder one : CollectionConverters.asJava(order)) {
      if (one.direction() != Ascending$.MODULE$ || one.nullOrdering() != NullsFirst$.MODULE$
          || !(one.child() instanceof AttributeReference column)) {
        return Optional.empty();
      }
      columns.add(column);
    }
    return Optional.of(columns);
  }

  /** The plan with its scan read so that rows come in this order; empty when that is not known to be possible. */
  private static Optional<SparkPlan> ordered(SparkPlan plan, List<AttributeReference> order) {
    if (plan instanceof FileSourceScanExec scan) {
      return FileOrder.of(scan, order).map(found -> scan(scan, found));
    }
    if (!isDeterministic(plan)) {
      return Optional.empty();
    }
    if (plan instanceof FilterExec filter) {
      return ordered(filter.child(), order).map(child -> withChildren(filter, List.of(child)));
    }
    if (plan instanceof ProjectExec project) {
      return beforeProjection(project, order)
          .flatMap(columns -> ordered(project.child(), columns))
          .map(child -> withChildren(project, List.of(child)));
    }
    if (plan instanceof BroadcastHashJoinExec join && !join.joinType().equals(FullOuter$.MODULE$)) {
      return orderedByStreamedSide(join, order);
    }
    return Optional.empty();
  }

  /** What a row is must not depend on what was read before it, as input_file_name() does. */
  private static boolean isDeterministic(SparkPlan plan) {
    return CollectionConverters.asJava(plan.expressions()).stream().allMatch(Expression::deterministic);
  }

  /** Merged rows are views of their files' batches; a projection makes them rows as Spark's operators expect them. */
  private static SparkPlan scan(FileSourceScanExec scan, FileOrder order) {
    SortedBucketScanExec sorted = new SortedBucketScanExec(scan, order);
    List<NamedExpression> all = List.copyOf(CollectionConverters.asJava(scan.output()));
    return order.merging() ? new ProjectExec(CollectionConverters.asScala(all).toSeq(), sorted) : sorted;
  }

  /** A broadcast join looks up one row of its streamed side after the other, so that side's order is the join's. */
  private static Optional<SparkPlan> orderedByStreamedSide(BroadcastHashJoinExec join, List<AttributeReference> order) {
    SparkPlan streamed = join.streamedPlan();
    if (!order.stream().allMatch(streamed.outputSet()::contains)) {
      return Optional.empty();
    }
    return ordered(streamed, order).map(child ->
        withChildren(join, join.left() == streamed ? List.of(child, join.right()) : List.of(join.left(), child)));
  }

  /** The columns below a projection that stand behind its columns. */
  private static Optional<List<AttributeReference>> beforeProjection(
      ProjectExec project, List<AttributeReference> order) {
    List<AttributeReference> columns = new ArrayList<>();
    for (AttributeReference column : order) {
      Optional<AttributeReference> below = CollectionConverters.asJava(project.projectList()).stream()
          .filter(named -> named.exprId().equals(column.exprId()))
          .findFirst()
          .flatMap(TrustSortedFiles::plainColumn);
      if (below.isEmpty()) {
        return Optional.empty();
      }
      columns.add(below.get());
    }
    return Optional.of(columns);
  }

  private static Optional<AttributeReference> plainColumn(NamedExpression named) {
    Expression expression = named instanceof Alias alias ? alias.child() : (Expression) named;
    return expression instanceof AttributeReference column ? Optional.of(column) : Optional.empty();
  }

  private static SparkPlan withChildren(SparkPlan plan, List<SparkPlan> children) {
    return plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }
}
