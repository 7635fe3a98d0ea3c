package dev.colocation.spark.plan;

import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.PartitioningCollection;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Option;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One of Spark's operators, while a query is planned, which tells more than Spark knows of where its rows are ({@code
 * outputPartitioning}). When all shuffles are settled, {@link #settled} takes it out again.
 */
abstract class WhilePlannedExec extends SparkPlan implements StandsFor {
  private static final long serialVersionUID = 1L;

  private final SparkPlan known;

  WhilePlannedExec(SparkPlan known) {
    this.known = known;
  }

  /** The plan as Spark itself would have it. */
  static SparkPlan settled(SparkPlan plan) {
    return UnknownSpark.orAsPlanned(plan, planned -> planned.transformUp(
        Replacing.each(WhilePlannedExec.class, WhilePlannedExec::plain)));
  }

  /** The distributions by a hash that are known, each alone. */
  static Stream<HashPartitioning> hashes(Partitioning given) {
    return given instanceof PartitioningCollection several
        ? CollectionConverters.asJava(several.partitionings()).stream().flatMap(WhilePlannedExec::hashes)
        : given instanceof HashPartitioning hash ? Stream.of(hash) : Stream.empty();
  }

  /** The same for another operator. */
  abstract WhilePlannedExec of(SparkPlan other);

  /** The operator as Spark planned it. */
  @Override
  public final SparkPlan plain() {
    return known;
  }

  @Override
  public final Seq<Attribute> output() {
    return known.output();
  }

  @Override
  public final Seq<SortOrder> outputOrdering() {
    return known.outputOrdering();
  }

  @Override
  public final boolean supportsColumnar() {
    return known.supportsColumnar();
  }

  @Override
  public final Option<Seq<String>> vectorTypes() {
    return known.vectorTypes();
  }

  @Override
  public final RDD<InternalRow> doExecute() {
    return known.execute();
  }

  @Override
  public final RDD<ColumnarBatch> doExecuteColumnar() {
    return known.executeColumnar();
  }

  @Override
  public Seq<SparkPlan> children() {
    return CollectionConverters.asScala(List.of(known)).toSeq();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return of(newChildren.head());
  }

  @Override
  public final boolean canEqual(Object other) {
    return getClass().isInstance(other);
  }

  @Override
  public final boolean equals(Object other) {
    return other instanceof WhilePlannedExec that && getClass() == that.getClass() && known.equals(that.known);
  }

  @Override
  public final int hashCode() {
    return 31 * getClass().hashCode() + known.hashCode();
  }

  @Override
  public final int productArity() {
    return 0;
  }

  @Override
  public final Object productElement(int index) {
    throw new IndexOutOfBoundsException(index);
  }
}
