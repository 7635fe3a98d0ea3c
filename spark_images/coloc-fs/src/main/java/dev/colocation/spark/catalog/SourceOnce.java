package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.WriteException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.PartitioningCollection;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.LogicalRDD$;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike;
import org.apache.spark.storage.StorageLevel;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * The source of a MERGE, which several queries read. Rows of colocated tables that lie in the target's buckets are read again by
 * each of them; their files never change. Any other source may give other rows then (files of others, {@code rand()}, LIMIT): it is
 * computed once, and its rows are kept by the executors until the statement ends. {@link SourceAttempts} begins again where they are
 * lost.
 *
 * <p>Where the condition compares all of the target's bucket key, the rows are kept in the target's buckets, in order.
 */
final class SourceOnce implements AutoCloseable {
  private final LogicalPlan plan;
  private final Optional<LogicalRDD> kept;

  private SourceOnce(LogicalPlan plan, Optional<LogicalRDD> kept) {
    this.plan = plan;
    this.kept = kept;
  }

  /** The source to read. */
  LogicalPlan plan() {
    return plan;
  }

  /** Whether its rows are kept. */
  boolean isKept() {
    return kept.isPresent();
  }

  /** Runs queries that read the source; {@link WriteException.SourceLost} where kept rows are missing. */
  <T> T reading(Supplier<T> queries) {
    try {
      return queries.get();
    } catch (Exception error) {
      kept.flatMap(rows -> SourceAttempts.lostBlock(error, rows.rdd().id())).ifPresent(block -> {
        throw new WriteException.SourceLost("executors lost rows of the source that they kept (" + block + ")", error);
      });
      throw error;
    }
  }

  /**
   * Computes the source, where that is needed.
   *
   * @param keys what the target's bucket key is compared with, in its order; empty when it is not compared
   * @param buckets of the target
   * @param level how the rows are kept
   */
  static SourceOnce of(SparkSession session, LogicalPlan source, List<Expression> keys, int buckets, StorageLevel level) {
    if (staysInPlace(session, source, keys, buckets)) {
      return new SourceOnce(source, Optional.empty());
    }
    LogicalPlan computed = Dataset.ofRows(session, together(source, keys, buckets))
        .localCheckpoint(true, level).queryExecution().analyzed();
    if (!(computed instanceof LogicalRDD kept)) {
      throw new ColocationException("this Spark keeps rows in another plan than those known: " + computed.nodeName()).unchecked();
    }
    boolean isTogether = !keys.isEmpty() && kept.rdd().getNumPartitions() == buckets;
    return new SourceOnce(withIds(isTogether ? inBuckets(kept, keys, buckets) : kept, source), Optional.of(kept));
  }

  /**
   * A source that is computed before the other queries, as planned.
   *
   * @param plan computes it
   * @param reason why it is not read where it is
   * @param rows what the other queries are planned with: it has the partitions and the order of the computed rows, but no row
   */
  record Computed(SparkPlan plan, String reason, LogicalPlan rows) {}

  /**
   * What {@link #of} would do, without computing the source; empty when it is read where it is.
   *
   * @param group of the target
   */
  static Optional<Computed> planned(SparkSession session, LogicalPlan source, List<Expression> keys, int buckets, String group) {
    if (staysInPlace(session, source, keys, buckets)) {
      return Optional.empty();
    }
    Dataset<Row> computed = Dataset.ofRows(session, together(source, keys, buckets));
    LogicalRDD rows = (LogicalRDD) Fields.call(LogicalRDD$.MODULE$, "fromDataset",
        session.sparkContext().emptyRDD(ClassTag$.MODULE$.apply(InternalRow.class)), computed);
    return Optional.of(new Computed(computed.queryExecution().executedPlan(), RepeatableSource.whyElsewhere(source, keys, group),
        withIds(keys.isEmpty() ? rows : inBuckets(rows, keys, buckets), source)));
  }

  private static Seq<SortOrder> order(List<Expression> keys) {
    return FilesRelation.sequence(keys.stream().map(SourceOnce::ascending).toList());
  }

  /** The rows of the source in the target's buckets, where the condition compares the bucket key. */
  private static LogicalPlan together(LogicalPlan source, List<Expression> keys, int buckets) {
    return keys.isEmpty() ? source : new Sort(order(keys), false,
        new RepartitionByExpression(FilesRelation.sequence(keys), source, Option.apply(buckets), Option.empty()), Option.empty());
  }

  private static LogicalRDD inBuckets(LogicalRDD rows, List<Expression> keys, int buckets) {
    return Fields.with(rows, Map.of(
        "outputPartitioning", new HashPartitioning(FilesRelation.sequence(keys), buckets), "outputOrdering", order(keys)));
  }

  private static SortOrder ascending(Expression key) {
    return new SortOrder(key, Ascending$.MODULE$, Ascending$.MODULE$.defaultNullOrdering(), FilesRelation.sequence(List.of()));
  }

  /** The same columns by the ids that the statement has. */
  private static LogicalPlan withIds(LogicalPlan computed, LogicalPlan source) {
    List<Attribute> found = CollectionConverters.asJava(computed.output());
    List<Attribute> wanted = CollectionConverters.asJava(source.output());
    List<NamedExpression> columns = new ArrayList<>();
    boolean isSame = true;
    for (int place = 0; place < wanted.size(); place++) {
      Attribute column = found.get(place);
      boolean hasId = column.exprId().equals(wanted.get(place).exprId());
      isSame &= hasId;
      columns.add(hasId ? column : new Alias(column, wanted.get(place).name(), wanted.get(place).exprId(),
          FilesRelation.sequence(List.of()), Option.apply(wanted.get(place).metadata()), FilesRelation.sequence(List.of())));
    }
    return isSame ? computed : new Project(FilesRelation.sequence(columns), computed);
  }

  /** Whether the source is read where it is, as often as it is needed. */
  private static boolean staysInPlace(SparkSession session, LogicalPlan source, List<Expression> keys, int buckets) {
    return RepeatableSource.whyNot(source).isEmpty() && isInBuckets(session, source, keys, buckets);
  }

  /** Whether the rows are in the target's buckets already. */
  private static boolean isInBuckets(SparkSession session, LogicalPlan source, List<Expression> keys, int buckets) {
    if (keys.isEmpty()) {
      return false;
    }
    SparkSession planning = session.cloneSession();
    planning.sessionState().conf().setConfString("spark.sql.adaptive.enabled", "false");
    SparkPlan planned = Dataset.ofRows(planning, source).queryExecution().executedPlan();
    return planned.find(node -> node instanceof ShuffleExchangeLike).isEmpty() && isHashed(planned.outputPartitioning(), keys, buckets);
  }

  private static boolean isHashed(Partitioning partitioning, List<Expression> keys, int buckets) {
    if (partitioning instanceof PartitioningCollection several) {
      return CollectionConverters.asJava(several.partitionings()).stream().anyMatch(one -> isHashed(one, keys, buckets));
    }
    if (!(partitioning instanceof HashPartitioning hashed) || hashed.numPartitions() != buckets
        || hashed.expressions().size() != keys.size()) {
      return false;
    }
    List<Expression> by = CollectionConverters.asJava(hashed.expressions());
    for (int place = 0; place < keys.size(); place++) {
      if (!by.get(place).semanticEquals(keys.get(place))) {
        return false;
      }
    }
    return true;
  }

  @Override
  public void close() {
    kept.ifPresent(rows -> rows.rdd().unpersist(false));
  }
}
