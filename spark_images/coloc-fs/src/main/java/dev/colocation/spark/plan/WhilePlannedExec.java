package dev.colocation.spark.plan;

import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
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

  /** The plan as it will be executed: first what depends on other operators here, then these as Spark itself would have them. */
  static SparkPlan settled(SparkPlan plan) {
    return UnknownSpark.orAsPlanned(plan, planned -> planned
        .transformUp(Replacing.each(WhilePlannedExec.class, WhilePlannedExec::decided))
        .transformUp(Replacing.each(WhilePlannedExec.class, WhilePlannedExec::plain)));
  }

  /** What is executed in the operator's place, where that depends on what is known now of the rows below. */
  SparkPlan decided() {
    return this;
  }

  /** The distributions by a hash that are known, each alone. */
  static Stream<HashPartitioning> hashes(Partitioning given) {
    return given instanceof PartitioningCollection several
        ? CollectionConverters.asJava(several.partitionings()).stream().flatMap(WhilePlannedExec::hashes)
        : given instanceof HashPartitioning hash ? Stream.of(hash) : Stream.empty();
  }

  /** A distribution under the new names of its columns; empty if one of these has none. */
  static Stream<HashPartitioning> renamed(HashPartitioning hash, Map<ExprId, Attribute> names) {
    List<Expression> keys = CollectionConverters.asJava(hash.expressions());
    return keys.stream().allMatch(key -> isKept(key, names)) ? Stream.of(new HashPartitioning(
        CollectionConverters.asScala(keys.stream().map(key -> renamed(key, names)).toList()).toSeq(), hash.numPartitions()))
        : Stream.empty();
  }

  private static boolean isKept(Expression key, Map<ExprId, Attribute> names) {
    return CollectionConverters.asJava(key.references().toSeq()).stream()
        .allMatch(column -> names.containsKey(column.exprId()));
  }

  private static Expression renamed(Expression key, Map<ExprId, Attribute> names) {
    return key.transform(Replacing.each(Attribute.class, column -> names.get(column.exprId())));
  }

  /** What is known when any of these distributions holds; else what Spark itself knows. */
  static Partitioning any(List<HashPartitioning> found, Partitioning otherwise) {
    return found.isEmpty() ? otherwise
        : found.size() == 1 ? found.get(0) : new PartitioningCollection(CollectionConverters.asScala(List.<Partitioning>copyOf(found)).toSeq());
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
  public boolean supportsColumnar() {
    return known.supportsColumnar();
  }

  @Override
  public final Option<Seq<String>> vectorTypes() {
    return known.vectorTypes();
  }

  @Override
  public RDD<InternalRow> doExecute() {
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
