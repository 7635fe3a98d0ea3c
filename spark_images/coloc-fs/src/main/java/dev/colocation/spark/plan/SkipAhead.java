package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.plans.ExistenceJoin;
import org.apache.spark.sql.catalyst.plans.InnerLike;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import org.apache.spark.sql.execution.joins.SortMergeJoinExec;
import org.apache.spark.sql.execution.window.WindowExec;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Where one side of a merge join is filtered and begins with a late key, the other side's files are read from that key on. Both are
 * sorted by it and read by the same task, which knows the key as soon as it has the filtered side's first rows: keys that grow with
 * time, and a query of the last days. A merge join stops by itself behind the last key.
 *
 * <p>A scan asks another one of a join for its first key, if that one has filters, and is smaller if both have some. Then it leaves out
 * rows below the key. So between the join and either scan there are only operators that give each row, or each group of rows of a key,
 * by itself.
 */
public final class SkipAhead extends Rule<SparkPlan> {
  @Override
  public SparkPlan apply(SparkPlan plan) {
    return TrustSortedFiles.isOn(conf()) ? UnknownSpark.orAsPlanned(plan, SkipAhead::skipping) : plan;
  }

  private static SparkPlan skipping(SparkPlan plan) {
    Map<SortedBucketScanExec, FirstKeys> keys = new IdentityHashMap<>();
    CollectionConverters.asJava(plan.collect(Replacing.each(SparkPlan.class, node -> node))).stream()
        .filter(SortMergeJoinExec.class::isInstance).forEach(join -> link((SortMergeJoinExec) join, keys));
    return keys.isEmpty() ? plan : plan.transformUp(
        Replacing.each(SortedBucketScanExec.class, scan -> keys.containsKey(scan) ? scan.with(keys.get(scan)) : scan));
  }

  private static void link(SortMergeJoinExec join, Map<SortedBucketScanExec, FirstKeys> keys) {
    for (int place = 0; place < join.leftKeys().size(); place++) {
      List<SortedBucketScanExec> left = scans(join.left(), join.leftKeys().apply(place));
      List<SortedBucketScanExec> right = scans(join.right(), join.rightKeys().apply(place));
      if (needsMatches(join.joinType(), false)) {
        link(left, right, keys);
      }
      if (needsMatches(join.joinType(), true)) {
        link(right, left, keys);
      }
    }
  }

  /** Whether rows of a side without a match change nothing. */
  private static boolean needsMatches(JoinType type, boolean left) {
    return type instanceof InnerLike || type == LeftSemi$.MODULE$
        || (left ? type == RightOuter$.MODULE$ : type == LeftOuter$.MODULE$ || type == LeftAnti$.MODULE$ || type instanceof ExistenceJoin);
  }

  private static void link(
      List<SortedBucketScanExec> giving, List<SortedBucketScanExec> asking, Map<SortedBucketScanExec, FirstKeys> keys) {
    for (SortedBucketScanExec giver : giving) {
      for (SortedBucketScanExec asker : asking) {
        if (isFiltered(giver) && (!isFiltered(asker) || bytes(giver) < bytes(asker))) {
          FirstKeys given = keys.computeIfAbsent(giver, SortedBucketScanExec::keys).named();
          keys.put(giver, given);
          keys.put(asker, keys.computeIfAbsent(asker, SortedBucketScanExec::keys).asking(given));
        }
      }
    }
  }

  /** Whether something may keep a scan from beginning with the table's first key. */
  private static boolean isFiltered(SortedBucketScanExec sorted) {
    FileSourceScanExec scan = sorted.plain();
    return !scan.partitionFilters().isEmpty()
        || CollectionConverters.asJava(scan.dataFilters()).stream().anyMatch(filter -> !(filter instanceof IsNotNull));
  }

  private static long bytes(SortedBucketScanExec scan) {
    return Stream.of(scan.plain().selectedPartitions().toPartitionArray()).mapToLong(PartitionedFile::length).sum();
  }

  /** The scans whose rows are sorted by the column that is this key of the plan's rows, and that this plan passes on key by key. */
  private static List<SortedBucketScanExec> scans(SparkPlan plan, Expression key) {
    List<SortedBucketScanExec> found = new ArrayList<>();
    if (key instanceof AttributeReference column) {
      collect(plan, column, found);
    }
    return found;
  }

  private static void collect(SparkPlan plan, Attribute key, List<SortedBucketScanExec> found) {
    if (plan instanceof SortedBucketScanExec scan) {
      if (scan.isSortedFirstBy(key)) {
        found.add(scan);
      }
    } else if (CollectionConverters.asJava(plan.expressions()).stream().allMatch(Expression::deterministic)) {
      SparkPlan known = plan instanceof StandsFor replacing ? replacing.plain() : plan;
      below(known, key).forEach(column -> passing(known, key).stream().filter(child -> child.outputSet().contains(column))
          .forEach(child -> collect(child, column, found)));
    }
  }

  /** The children whose rows, or groups of rows of a key, a plan gives one by one. */
  private static List<SparkPlan> passing(SparkPlan plan, Attribute key) {
    if (plan instanceof ProjectExec || plan instanceof FilterExec || plan instanceof SortExec sort && !sort.global()
        || plan instanceof BaseAggregateExec aggregate && has(aggregate.groupingExpressions(), key)
        || plan instanceof WindowExec window && has(window.partitionSpec(), key)) {
      return List.of(plan.children().head());
    }
    if (plan instanceof SortMergeJoinExec join) {
      return Stream.of(join.left(), join.right())
          .filter(side -> keepsRows(join.joinType(), side == join.left()) || join.joinType() == LeftSemi$.MODULE$).toList();
    }
    if (plan instanceof BroadcastHashJoinExec join && keepsRows(join.joinType(), join.streamedPlan() == join.left())) {
      return List.of(join.streamedPlan());
    }
    return List.of();
  }

  /** Whether all rows of a join are rows of this side, with what they match. */
  private static boolean keepsRows(JoinType type, boolean left) {
    return type instanceof InnerLike || (left
        ? type == LeftOuter$.MODULE$ || type == LeftSemi$.MODULE$ || type == LeftAnti$.MODULE$ || type instanceof ExistenceJoin
        : type == RightOuter$.MODULE$);
  }

  private static boolean has(Seq<? extends Object> expressions, Attribute key) {
    return CollectionConverters.asJava(expressions).stream()
        .anyMatch(one -> one instanceof Attribute column && column.exprId().equals(key.exprId()));
  }

  /** The columns of the plan's children that this column of its rows is; a join's key is a column of either side, where both have to match. */
  private static List<Attribute> below(SparkPlan plan, Attribute key) {
    if (plan instanceof ProjectExec project) {
      return CollectionConverters.asJava(project.projectList()).stream().filter(named -> named.exprId().equals(key.exprId()))
          .flatMap(named -> SortedInput.plainColumn(named).stream()).map(Attribute.class::cast).toList();
    }
    List<Attribute> columns = new ArrayList<>(List.of(key));
    if (plan instanceof SortMergeJoinExec join && needsMatches(join.joinType(), true) && needsMatches(join.joinType(), false)) {
      for (int place = 0; place < join.leftKeys().size(); place++) {
        if (join.leftKeys().apply(place) instanceof Attribute left && join.rightKeys().apply(place) instanceof Attribute right) {
          columns.addAll(left.exprId().equals(key.exprId()) ? List.of(right) : right.exprId().equals(key.exprId()) ? List.of(left) : List.of());
        }
      }
    }
    return columns;
  }
}
