package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.UnionExec;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Two branches of a union that are written where they are: a bucket's rows of both come in one task, merged in the order of files, so
 * that they become one file.
 */
public final class MergedRowsExec extends SparkPlan {
  private static final long serialVersionUID = 1L;

  private final Seq<SparkPlan> branches;
  private final Seq<Attribute> output;
  private final Seq<SortOrder> order;

  private MergedRowsExec(Seq<SparkPlan> branches, Seq<Attribute> output, Seq<SortOrder> order) {
    this.branches = branches;
    this.output = output;
    this.order = order;
  }

  /** The union with its first two branches merged; empty where they are in different orders, or not in place. */
  static Optional<SparkPlan> of(UnionExec union) {
    List<SparkPlan> branches = CollectionConverters.asJava(union.children());
    List<SparkPlan> merged = branches.stream().filter(branch -> inPlace(branch).isPresent()).limit(2).toList();
    if (merged.size() < 2 || !isSame(merged.get(0), merged.get(1))) {
      return Optional.empty();
    }
    MergedRowsExec both = new MergedRowsExec(
        sequence(merged), union.output(), inPlace(merged.get(0)).orElseThrow().order());
    List<SparkPlan> all = new ArrayList<>(List.of(both));
    branches.stream().filter(branch -> merged.stream().noneMatch(one -> one == branch)).forEach(all::add);
    return Optional.of(all.size() == 1 ? both : PlanFields.with(union, "children", sequence(all)));
  }

  /** The rows in place below projections that only choose columns. */
  private static Optional<InPlaceRowsExec> inPlace(SparkPlan branch) {
    if (branch instanceof ProjectExec project
        && CollectionConverters.asJava(project.projectList()).stream().allMatch(Attribute.class::isInstance)) {
      return inPlace(project.child());
    }
    return branch instanceof InPlaceRowsExec rows && rows.isMerged() ? Optional.of(rows) : Optional.empty();
  }

  private static boolean isSame(SparkPlan one, SparkPlan other) {
    InPlaceRowsExec rows = inPlace(one).orElseThrow();
    InPlaceRowsExec others = inPlace(other).orElseThrow();
    List<Integer> places = places(rows.order(), one);
    return rows.interleaves() == others.interleaves() && !places.contains(-1) && places.equals(places(others.order(), other));
  }

  /** The places of the order's columns in a branch's rows; -1 where one is missing. */
  private static List<Integer> places(Seq<SortOrder> order, SparkPlan branch) {
    List<Attribute> columns = CollectionConverters.asJava(branch.output());
    return CollectionConverters.asJava(order).stream().flatMap(one -> CollectionConverters.asJava(one.references().toSeq()).stream())
        .map(wanted -> columns.stream().map(Attribute::exprId).toList().indexOf(wanted.exprId())).toList();
  }

  @Override
  public RDD<InternalRow> doExecute() {
    JavaRDD<InternalRow> first = branches.apply(0).execute().toJavaRDD();
    JavaRDD<InternalRow> second = branches.apply(1).execute().toJavaRDD();
    return first.getNumPartitions() == second.getNumPartitions()
        ? first.zipPartitions(second, new MergeInOrder(order, branches.apply(0).output())).rdd() : first.union(second).rdd();
  }

  @Override
  public Seq<Attribute> output() {
    return output;
  }

  @Override
  public Seq<SparkPlan> children() {
    return branches;
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return new MergedRowsExec(newChildren, output, order);
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof MergedRowsExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof MergedRowsExec that && branches.equals(that.branches) && order.equals(that.order);
  }

  @Override
  public int hashCode() {
    return branches.hashCode();
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int index) {
    return branches;
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
