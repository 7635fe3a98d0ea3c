package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.FlatMapFunction2;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A union of inputs that are distributed alike: a task takes the rows of the same partition of each, one input after the other, or
 * merged where all are in one order that is needed above.
 */
final class AlignedUnionExec extends SparkPlan {
  private static final long serialVersionUID = 1L;

  private final Seq<SparkPlan> inputs;
  private final Seq<Attribute> output;
  private final Partitioning partitioning;
  private final Seq<SortOrder> order;

  /**
   * A union.
   *
   * @param partitioning which all inputs have, by the union's columns
   */
  AlignedUnionExec(Seq<SparkPlan> inputs, Seq<Attribute> output, Partitioning partitioning) {
    this(inputs, output, partitioning, sequence(List.of()));
  }

  private AlignedUnionExec(Seq<SparkPlan> inputs, Seq<Attribute> output, Partitioning partitioning, Seq<SortOrder> order) {
    this.inputs = inputs;
    this.output = output;
    this.partitioning = partitioning;
    this.order = order;
  }

  /** The same union of inputs whose rows come in order, merged by their first so many sort columns; empty if these differ. */
  Optional<SparkPlan> merged(List<SparkPlan> sorted, int columns) {
    List<List<SortOrder>> orders = sorted.stream().map(input -> renamed(input, columns)).distinct().toList();
    return orders.size() == 1 && orders.get(0).size() == columns
        ? Optional.of(new AlignedUnionExec(sequence(sorted), output, partitioning, sequence(orders.get(0)))) : Optional.empty();
  }

  /** What an input's rows are sorted by first, by the union's columns. */
  private List<SortOrder> renamed(SparkPlan input, int columns) {
    List<SortOrder> found = new ArrayList<>();
    for (SortOrder one : CollectionConverters.asJava(input.outputOrdering())) {
      int place = one.child() instanceof Attribute column ? place(input, column) : -1;
      if (place < 0 || found.size() == columns) {
        return found;
      }
      found.add(new SortOrder(output.apply(place), one.direction(), one.nullOrdering(), sequence(List.of())));
    }
    return found;
  }

  /** The input's column in the place of one of the union's. */
  static Optional<AttributeReference> below(SparkPlan union, SparkPlan input, AttributeReference column) {
    int place = place(union, column);
    return place >= 0 && input.output().apply(place) instanceof AttributeReference found ? Optional.of(found) : Optional.empty();
  }

  private static int place(SparkPlan plan, Attribute column) {
    return CollectionConverters.asJava(plan.output()).stream().map(Attribute::exprId).toList().indexOf(column.exprId());
  }

  /**
   * The rows.
   *
   * @throws IllegalStateException the inputs have different numbers of partitions, so rows of one key could be in several
   */
  @Override
  public RDD<InternalRow> doExecute() {
    List<JavaRDD<InternalRow>> all =
        CollectionConverters.asJava(inputs).stream().map(input -> input.execute().toJavaRDD()).toList();
    List<Integer> numbers = all.stream().map(JavaRDD::getNumPartitions).distinct().toList();
    if (numbers.size() != 1) {
      throw new IllegalStateException("inputs of a union that is read bucket by bucket have " + numbers + " partitions; planned: "
          + partitioning);
    }
    return all.stream().reduce((first, second) -> first.zipPartitions(second, together())).orElseThrow().rdd();
  }

  private FlatMapFunction2<Iterator<InternalRow>, Iterator<InternalRow>, InternalRow> together() {
    return order.isEmpty() ? new OneAfterTheOther() : new MergeInOrder(order, output);
  }

  private static final class OneAfterTheOther
      implements FlatMapFunction2<Iterator<InternalRow>, Iterator<InternalRow>, InternalRow> {
    private static final long serialVersionUID = 1L;

    @Override
    public Iterator<InternalRow> call(Iterator<InternalRow> first, Iterator<InternalRow> second) {
      return new Iterator<>() {
        @Override
        public boolean hasNext() {
          return first.hasNext() || second.hasNext();
        }

        @Override
        public InternalRow next() {
          return first.hasNext() ? first.next() : second.next();
        }
      };
    }
  }

  @Override
  public Seq<Attribute> output() {
    return output;
  }

  @Override
  public Partitioning outputPartitioning() {
    return partitioning;
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return order;
  }

  @Override
  public Seq<SparkPlan> children() {
    return inputs;
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return new AlignedUnionExec(newChildren, output, partitioning, order);
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof AlignedUnionExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof AlignedUnionExec that && inputs.equals(that.inputs) && output.equals(that.output) && order.equals(that.order);
  }

  @Override
  public int hashCode() {
    return inputs.hashCode();
  }

  @Override
  public int productArity() {
    return 0;
  }

  @Override
  public Object productElement(int index) {
    throw new IndexOutOfBoundsException(index);
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
