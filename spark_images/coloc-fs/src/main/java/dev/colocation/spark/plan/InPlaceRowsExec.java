package dev.colocation.spark.plan;

import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Rows that are written where they are: those of a task are in one bucket of the target. Tells the task's writer so. */
public final class InPlaceRowsExec extends SparkPlan {
  private static final long serialVersionUID = 1L;

  private final SparkPlan child;
  private final boolean interleaves;
  private final Seq<SortOrder> order;
  private final boolean isMerged;

  /**
   * The rows of a plan.
   *
   * @param interleaves whether rows of several partitions alternate, each in the order of files
   * @param order of the plan's rows
   * @param isMerged with other branches of a union
   */
  InPlaceRowsExec(SparkPlan child, boolean interleaves, Seq<SortOrder> order, boolean isMerged) {
    this.child = child;
    this.interleaves = interleaves;
    this.order = order;
    this.isMerged = isMerged;
  }

  boolean interleaves() {
    return interleaves;
  }

  Seq<SortOrder> order() {
    return order;
  }

  boolean isMerged() {
    return isMerged;
  }

  /** What is known of a task's rows. */
  public enum Rows {
    /** Rows of any buckets, sorted by partition and bucket. */
    SORTED,
    /** Rows of one bucket, sorted by partition. */
    OF_BUCKET,
    /** Rows of one bucket, in which partitions alternate. */
    OF_BUCKET_INTERLEAVED;

    private static final Map<Long, Rows> OF_TASKS = new ConcurrentHashMap<>();

    /** Those that this thread's task writes, as known when it has read its first row. */
    public static Rows ofTask() {
      TaskContext task = TaskContext.get();
      return task == null ? SORTED : OF_TASKS.getOrDefault(task.taskAttemptId(), SORTED);
    }

    private static void set(Rows rows) {
      TaskContext task = TaskContext.get();
      if (OF_TASKS.put(task.taskAttemptId(), rows) == null) {
        task.addTaskCompletionListener((TaskCompletionListener) ended -> OF_TASKS.remove(ended.taskAttemptId()));
      }
    }
  }

  private static final class OfTask implements FlatMapFunction<Iterator<InternalRow>, InternalRow> {
    private static final long serialVersionUID = 1L;

    private final Rows rows;

    OfTask(Rows rows) {
      this.rows = rows;
    }

    @Override
    public Iterator<InternalRow> call(Iterator<InternalRow> given) {
      Rows.set(rows);
      return given;
    }
  }

  @Override
  public RDD<InternalRow> doExecute() {
    OfTask tells = new OfTask(interleaves ? Rows.OF_BUCKET_INTERLEAVED : Rows.OF_BUCKET);
    return child.execute().toJavaRDD().mapPartitions(tells, true).rdd();
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return child.outputOrdering();
  }

  @Override
  public Seq<SparkPlan> children() {
    return CollectionConverters.asScala(List.of(child)).toSeq();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return new InPlaceRowsExec(newChildren.head(), interleaves, order, isMerged);
  }

  @Override
  public String simpleString(int maxFields) {
    return nodeName() + (interleaves ? " no shuffle, partitions interleaved" : " no shuffle");
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof InPlaceRowsExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof InPlaceRowsExec that && interleaves == that.interleaves && child.equals(that.child);
  }

  @Override
  public int hashCode() {
    return child.hashCode();
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int index) {
    return child;
  }
}
