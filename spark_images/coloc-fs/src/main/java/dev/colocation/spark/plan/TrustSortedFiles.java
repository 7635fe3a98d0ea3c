package dev.colocation.spark.plan;

import dev.colocation.spark.fs.ColocPath;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.window.WindowExec;
import org.apache.spark.sql.internal.SQLConf;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Makes use of the order of rows in the files of colocated tables. Loads write sorted files, but Spark trusts them only
 * where a bucket has a single one. Semi-joins that filter both sides of a join are done once ({@link RepeatedSemiJoins}). Then,
 * bottom up, so that each operator finds those below it as they will be:
 *
 * <ul>
 *   <li>a sort is removed when the bucket's files, read in order or merged, give its order anyway ({@link SortedInput});
 *   <li>a group-by whose groups are contiguous needs no hash table ({@link SortedAggregates});
 *   <li>a window is part of generated code, and keeps no rows if they run up to the current one ({@link SortedWindowExec}).
 * </ul>
 *
 * <p>Whatever is not understood stays as Spark planned it.
 */
public final class TrustSortedFiles extends Rule<SparkPlan> {
  /** Session switch; {@code false} leaves all plans as they are. */
  private static final String SWITCH = "spark.colocation.trustSortedFiles";

  @Override
  public SparkPlan apply(SparkPlan plan) {
    if (!isOn(conf())) {
      return plan;
    }
    return UnknownSpark.orAsPlanned(plan, planned -> RepeatedSemiJoins.once(planned).transformUp(
        Replacing.each(SparkPlan.class, TrustSortedFiles::better)));
  }

  /** Whether the session trusts the order of rows in files. */
  static boolean isOn(SQLConf conf) {
    return conf.getConfString(SWITCH, "true").equalsIgnoreCase("true");
  }

  private static SparkPlan better(SparkPlan node) {
    Optional<? extends SparkPlan> better = node instanceof SortExec sort ? withoutSort(sort)
        : node instanceof WindowExec window ? streamed(window)
        : node instanceof BaseAggregateExec aggregate ? SortedAggregates.replacing(aggregate) : Optional.empty();
    return better.isPresent() ? better.get() : node;
  }

  private static Optional<SparkPlan> withoutSort(SortExec sort) {
    if (sort.global()) {
      return Optional.empty();
    }
    if (SortedAggregates.isOverSortedFiles(sort.child())
        && SortOrder.orderingSatisfies(sort.child().outputOrdering(), sort.sortOrder())) {
      return Optional.of(sort.child());
    }
    return columns(sort.sortOrder()).flatMap(columns -> SortedInput.ordered(sort.child(), columns));
  }

  /** A window in generated code, whose rows come from files of ours without a shuffle; behind one, an adaptive plan does not show where they are from. */
  private static Optional<SparkPlan> streamed(WindowExec window) {
    return isInPlace(window.child()) ? SortedWindowExec.of(window) : Optional.empty();
  }

  private static boolean isInPlace(SparkPlan plan) {
    return plan instanceof SortedBucketScanExec || plan instanceof FileSourceScanExec scan && ColocPath.isRootOf(scan.relation())
        || !(plan instanceof Exchange) && CollectionConverters.asJava(plan.children()).stream().anyMatch(TrustSortedFiles::isInPlace);
  }

  /** The columns of an order, when it is one of plain columns, each ascending with NULL first. */
  static Optional<List<AttributeReference>> columns(scala.collection.immutable.Seq<SortOrder> order) {
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
}
