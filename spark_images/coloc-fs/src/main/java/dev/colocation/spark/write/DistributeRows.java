package dev.colocation.spark.write;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2;
import org.apache.spark.sql.execution.streaming.sources.MicroBatchWrite;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Brings a write's rows to where they go: their bucket as one more column, the same that Spark's own bucketed tables have; rows of
 * a partition and bucket together, more tasks where these are large (adaptive execution splits and merges); sorted as files
 * are.
 */
public final class DistributeRows extends Rule<LogicalPlan> {
  private static final String BUCKET = "__colocation_bucket";

  /** Commands are roots of plans; Spark has made the write, and so begun the change, just before this rule. */
  @Override
  @SuppressWarnings("deprecation") // WriteToDataSourceV2, which Spark itself still makes of a stream's writes
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof AppendData append) {
      return inserted(append, append.write());
    }
    if (plan instanceof OverwriteByExpression overwrite) {
      return inserted(overwrite, overwrite.write());
    }
    if (plan instanceof OverwritePartitionsDynamic overwrite) {
      return inserted(overwrite, overwrite.write());
    }
    if (plan instanceof WriteToDataSourceV2 stream && stream.batchWrite() instanceof MicroBatchWrite batch
        && batch.writeSupport() instanceof TableWrite.Stream write) {
      return changed(stream, query -> distributed(query, write.write()));
    }
    return plan;
  }

  private static LogicalPlan inserted(LogicalPlan command, Option<Write> write) {
    if (write.isDefined() && write.get() instanceof TableWrite ours) {
      return changed(command, query -> distributed(ours.isCommitted() ? noRows(query) : query, ours));
    }
    return command;
  }

  /** What was committed before is not computed again. */
  private static LogicalPlan noRows(LogicalPlan query) {
    return LocalRelation$.MODULE$.apply(query.output());
  }

  private static LogicalPlan changed(LogicalPlan command, Function<LogicalPlan, LogicalPlan> change) {
    List<LogicalPlan> children = CollectionConverters.asJava(command.children());
    return command.withNewChildren(sequence(List.of(change.apply(children.get(0)))));
  }

  private static LogicalPlan distributed(LogicalPlan query, TableWrite write) {
    TableLayout layout = write.layout();
    List<Attribute> output = CollectionConverters.asJava(query.output());
    Alias bucket = new Alias(
        new HashPartitioning(sequence(columns(output, layout.bucketedBy())), write.buckets()).partitionIdExpression(),
        BUCKET, NamedExpression$.MODULE$.newExprId(), sequence(List.of()), Option.empty(), sequence(List.of()));
    List<NamedExpression> withBucket = new ArrayList<>(output);
    withBucket.add(bucket);
    List<Expression> together = columns(output, layout.partitionedBy());
    together.add(bucket.toAttribute());
    List<Expression> order = new ArrayList<>(together);
    layout.sortedBy().stream()
        .filter(name -> layout.partitionedBy().stream().noneMatch(name::equalsIgnoreCase))
        .forEach(name -> order.addAll(columns(output, List.of(name))));
    LogicalPlan rebalanced = new RebalancePartitions(
        sequence(together), new Project(sequence(withBucket), query), Option.empty(), Option.apply(write.targetFileSize()));
    return new Sort(sequence(order.stream().map(DistributeRows::ascending).toList()), false, rebalanced, Option.empty());
  }

  private static List<Expression> columns(List<Attribute> output, List<String> names) {
    List<Expression> found = new ArrayList<>();
    for (String name : names) {
      found.add(output.stream().filter(column -> column.name().equalsIgnoreCase(name)).findFirst().orElseThrow());
    }
    return found;
  }

  /** NULL first. */
  private static SortOrder ascending(Expression column) {
    return new SortOrder(column, Ascending$.MODULE$, Ascending$.MODULE$.defaultNullOrdering(), sequence(List.of()));
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
