package dev.colocation.spark.plan;

import dev.colocation.spark.fs.ColocPath;
import dev.colocation.spark.plan.UnionsInPlace.UnionInPlaceExec;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.PartitioningCollection;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.UnaryExecNode;
import org.apache.spark.sql.execution.UnionExec;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Takes away the shuffle before a write whose rows lie in the target's buckets already, and the sort where they come in the order of
 * files. Every write is planned with both ({@code DistributeRows}); here the physical plan shows where rows are.
 *
 * <p>The proof: a partitioning of the rows computes the number of a row's task by the very expression that computes its bucket. The
 * writer checks it for each row ({@link InPlaceRowsExec}).
 *
 * <p>It runs when a plan is made, and with adaptive execution each time that it is made again, since a join may become another one.
 */
public final class InPlaceWrites extends Rule<SparkPlan> {
  /** The column with the number of a row's bucket. */
  public static final String BUCKET = "__colocation_bucket";
  /** The same, of rows that are merged with those of other branches of their union. */
  public static final String MERGED_BUCKET = "__colocation_merged_bucket";

  /** Session switch; {@code false} lets every write shuffle and sort. */
  static final String SWITCH = "spark.colocation.writeInPlace";

  private static final String DISABLED = "disableBucketedScan";

  @Override
  public SparkPlan apply(SparkPlan plan) {
    if (!conf().getConfString(SWITCH, "true").equalsIgnoreCase("true")) {
      return plan;
    }
    return UnknownSpark.orAsPlanned(plan, planned -> planned.transformUp(new Replacement()));
  }

  private static final class Replacement extends AbstractPartialFunction<SparkPlan, SparkPlan> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(SparkPlan node) {
      return node instanceof UnionExec
          || node instanceof SortExec sort && !sort.global() && sort.child() instanceof ShuffleExchangeExec;
    }

    @Override
    public SparkPlan apply(SparkPlan node) {
      return node instanceof UnionExec union ? MergedRowsExec.of(union).orElse(node)
          : Distributed.of((SortExec) node).flatMap(Distributed::inPlace).orElse(node);
    }
  }

  /**
   * The operators that distribute the rows of a write.
   *
   * @param rows with the bucket
   * @param columns of the rows, without the bucket
   * @param bucket computes it
   * @param order of the files, without the bucket
   * @param partitions how many of the order's first expressions are of partition columns
   */
  private record Distributed(
      SparkPlan rows, List<NamedExpression> columns, Alias bucket, List<SortOrder> order, int partitions) {

    static Optional<Distributed> of(SortExec sort) {
      List<SortOrder> order = new ArrayList<>(CollectionConverters.asJava(sort.sortOrder()));
      Optional<SortOrder> first = order.stream().filter(
          one -> one.child() instanceof Attribute column && Set.of(BUCKET, MERGED_BUCKET).contains(column.name())).findFirst();
      if (first.isEmpty()) {
        return Optional.empty();
      }
      int partitions = order.indexOf(first.get());
      order.remove(partitions);
      SparkPlan rows = ((ShuffleExchangeExec) sort.child()).child();
      List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(
          rows instanceof ProjectExec project ? project.projectList()
              : rows instanceof BaseAggregateExec aggregate ? aggregate.resultExpressions() : empty()));
      ExprId id = ((Attribute) first.get().child()).exprId();
      return columns.stream().filter(one -> one instanceof Alias && one.exprId().equals(id)).findFirst().map(bucket -> {
        columns.remove(bucket);
        return new Distributed(rows, columns, (Alias) bucket, order, partitions);
      });
    }

    /** The rows without the bucket's column, where a projection adds it; an aggregate, which computes it as well, stays as it is. */
    private SparkPlan shown() {
      return rows instanceof ProjectExec project
          ? new ProjectExec(CollectionConverters.asScala(columns).toSeq(), bucketed(project.child())) : rows;
    }

    Optional<SparkPlan> inPlace() {
      SparkPlan shown = shown();
      // The columns by which the bucket is computed are those below; neither node moves a row to another task.
      if (!isProven(((UnaryExecNode) shown).child().outputPartitioning())) {
        return Optional.empty();
      }
      List<SortOrder> inFiles = order.subList(partitions, order.size());
      boolean interleaves = !comesOrdered(shown, order) && comesOrdered(shown, inFiles);
      List<SortOrder> needed = interleaves ? inFiles : order;
      Seq<SortOrder> inOrder = CollectionConverters.asScala(needed).toSeq();
      SparkPlan sorted = isOrdered(shown, needed) ? shown : new SortExec(inOrder, false, shown, 0);
      return Optional.of(new InPlaceRowsExec(sorted, interleaves, inOrder, bucket.name().equals(MERGED_BUCKET)));
    }

    private boolean isProven(Partitioning partitioning) {
      if (partitioning instanceof PartitioningCollection several) {
        return CollectionConverters.asJava(several.partitionings()).stream().anyMatch(this::isProven);
      }
      return partitioning instanceof HashPartitioning hashed && hashed.partitionIdExpression().semanticEquals(bucket.child());
    }
  }

  private static Seq<NamedExpression> empty() {
    return CollectionConverters.asScala(List.<NamedExpression>of()).toSeq();
  }

  private static boolean isOrdered(SparkPlan rows, List<SortOrder> order) {
    return SortOrder.orderingSatisfies(rows.outputOrdering(), CollectionConverters.asScala(order).toSeq());
  }

  /** Whether rows come in this order, or {@link TrustSortedFiles} will take a sort by it away. */
  private static boolean comesOrdered(SparkPlan rows, List<SortOrder> order) {
    if (isOrdered(rows, order)) {
      return true;
    }
    if (rows instanceof BaseAggregateExec aggregate) {
      return SortedAggregates.replacing(aggregate).filter(sorted -> isOrdered(sorted, order)).isPresent();
    }
    return TrustSortedFiles.columns(CollectionConverters.asScala(order).toSeq())
        .flatMap(columns -> SortedInput.ordered(rows, columns)).isPresent();
  }

  /** The plan with its scan in buckets again, where Spark found that nothing needs them. */
  private static SparkPlan bucketed(SparkPlan plan) {
    if (plan instanceof FileSourceScanExec scan && scan.disableBucketedScan() && ColocPath.isRootOf(scan.relation())) {
      return PlanFields.with(scan, DISABLED, false);
    }
    if (plan instanceof FilterExec || plan instanceof ProjectExec) {
      return withChild(plan, 0);
    }
    if (plan instanceof UnionInPlaceExec) {
      return IntStream.range(0, plan.children().size()).boxed().reduce(plan, InPlaceWrites::withChild, (first, all) -> all);
    }
    return plan instanceof BroadcastHashJoinExec join ? withChild(plan, join.left() == join.streamedPlan() ? 0 : 1) : plan;
  }

  private static SparkPlan withChild(SparkPlan plan, int place) {
    List<SparkPlan> children = new ArrayList<>(CollectionConverters.asJava(plan.children()));
    SparkPlan better = bucketed(children.get(place));
    if (better == children.get(place)) {
      return plan;
    }
    children.set(place, better);
    return plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }
}
