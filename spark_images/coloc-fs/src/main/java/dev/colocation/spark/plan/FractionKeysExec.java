package dev.colocation.spark.plan;

import java.util.List;
import java.util.Objects;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers$;
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
 * A bucketed scan by FLOAT or DOUBLE columns, while a query is planned. Joins and windows compare such columns as {@code
 * normalizenanandzero(k)}; Spark does not know that rows which are distributed by {@code k} are distributed by that, too. They are:
 * Spark's hash takes -0.0 for 0.0, and every NaN for the same one ({@code tests/spark/test_fraction_keys.py}).
 */
public final class FractionKeysExec extends SparkPlan {
  private static final long serialVersionUID = 1L;

  private final SparkPlan scan;

  FractionKeysExec(SparkPlan scan) {
    this.scan = scan;
  }

  /** The scan as Spark planned it. */
  public SparkPlan scan() {
    return scan;
  }

  /** How the scan's rows are distributed, in both ways to say it. */
  @Override
  public Partitioning outputPartitioning() {
    if (!(scan.outputPartitioning() instanceof HashPartitioning known)) {
      return scan.outputPartitioning();
    }
    List<Expression> keys = CollectionConverters.asJava(known.expressions());
    HashPartitioning normalized = new HashPartitioning(
        sequence(keys.stream().map(NormalizeFloatingNumbers$.MODULE$::normalize).toList()), known.numPartitions());
    return new PartitioningCollection(sequence(List.of(known, normalized)));
  }

  @Override
  public Seq<Attribute> output() {
    return scan.output();
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return scan.outputOrdering();
  }

  @Override
  public boolean supportsColumnar() {
    return scan.supportsColumnar();
  }

  @Override
  public Option<Seq<String>> vectorTypes() {
    return scan.vectorTypes();
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return scan.execute();
  }

  @Override
  public RDD<ColumnarBatch> doExecuteColumnar() {
    return scan.executeColumnar();
  }

  @Override
  public Seq<SparkPlan> children() {
    return sequence(List.of(scan));
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return new FractionKeysExec(newChildren.head());
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof FractionKeysExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof FractionKeysExec that && scan.equals(that.scan);
  }

  @Override
  public int hashCode() {
    return Objects.hash(FractionKeysExec.class, scan);
  }

  @Override
  public int productArity() {
    return 0;
  }

  @Override
  public Object productElement(int index) {
    throw new IndexOutOfBoundsException(index);
  }
}
