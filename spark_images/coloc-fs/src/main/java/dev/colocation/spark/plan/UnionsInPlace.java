package dev.colocation.spark.plan;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkPlanner;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Keeps shuffles away above {@code UNION ALL} of tables in the same buckets, which {@code UNION}, {@code INTERSECT ALL} and {@code EXCEPT
 * ALL} are made of, too: a task takes a bucket's rows of all inputs. Spark's own union does so from 4.1 on, for inputs that it takes for
 * equally distributed; a filter or another name of a column in one of them is enough that it does not.
 */
public final class UnionsInPlace extends SparkStrategy {
  private static final Set<String> OF_WRITES = Set.of(InPlaceWrites.BUCKET, InPlaceWrites.MERGED_BUCKET);

  private final transient SparkSession session;

  /** For plans of a session. */
  public UnionsInPlace(SparkSession session) {
    this.session = session;
  }

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    return UnknownSpark.orAsPlanned(sequence(List.of()),
        nothing -> plan instanceof Union union && isOfTables(union) ? planned(union) : nothing);
  }

  /** Whether a table of ours is in each input; branches of a write are {@link InPlaceWrites}' own. */
  private static boolean isOfTables(Union union) {
    return !union.isStreaming() && !union.exists(UnionsInPlace::isDistributedForWrite)
        && CollectionConverters.asJava(union.children()).stream().allMatch(RowsInPlace::hasBuckets);
  }

  private static boolean isDistributedForWrite(LogicalPlan plan) {
    return CollectionConverters.asJava(plan.output()).stream().anyMatch(column -> OF_WRITES.contains(column.name()));
  }

  private Seq<SparkPlan> planned(Union union) {
    SparkPlanner planner = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().planner();
    return sequence(CollectionConverters.asJava(planner.BasicOperators().apply(union)).stream()
        .<SparkPlan>map(UnionInPlaceExec::new).toList());
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }

  /** A union whose rows are distributed as those of all its inputs are. */
  static final class UnionInPlaceExec extends WhilePlannedExec {
    private static final long serialVersionUID = 1L;

    UnionInPlaceExec(SparkPlan known) {
      super(known);
    }

    @Override
    UnionInPlaceExec of(SparkPlan other) {
      return new UnionInPlaceExec(other);
    }

    @Override
    public Seq<SparkPlan> children() {
      return plain().children();
    }

    @Override
    public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
      return of(plain().withNewChildren(newChildren));
    }

    @Override
    public Partitioning outputPartitioning() {
      return any(common(), plain().outputPartitioning());
    }

    /** Operators above may rely on what is known now, and rules on plans that come later may know less. */
    @Override
    SparkPlan decided() {
      List<HashPartitioning> common = common();
      return common.isEmpty() ? plain() : new AlignedUnionExec(children(), output(), any(common, plain().outputPartitioning()));
    }

    @Override
    public boolean supportsColumnar() {
      return common().isEmpty() && super.supportsColumnar();
    }

    @Override
    public RDD<InternalRow> doExecute() {
      return decided().execute();
    }

    /** Distributions that all inputs have, by the union's columns; none where a column of it is two of another input. */
    private List<HashPartitioning> common() {
      if (CollectionConverters.asJava(output()).stream().map(Attribute::exprId).distinct().count() < output().size()) {
        return List.of();
      }
      List<List<HashPartitioning>> ofInputs = CollectionConverters.asJava(children()).stream().map(this::ofInput).toList();
      return ofInputs.get(0).stream()
          .filter(one -> ofInputs.stream().allMatch(others -> others.stream().anyMatch(other -> isSame(one, other)))).toList();
    }

    private List<HashPartitioning> ofInput(SparkPlan input) {
      return names(input).flatMap(names -> hashes(input.outputPartitioning()).flatMap(hash -> renamed(hash, names))).toList();
    }

    /** The union's columns by those of an input; one that stands there twice has two names. */
    private Stream<Map<ExprId, Attribute>> names(SparkPlan input) {
      Map<ExprId, Attribute> first = new HashMap<>();
      Map<ExprId, Attribute> last = new HashMap<>();
      for (int place = 0; place < output().size(); place++) {
        ExprId column = input.output().apply(place).exprId();
        first.putIfAbsent(column, output().apply(place));
        last.put(column, output().apply(place));
      }
      return first.equals(last) ? Stream.of(first) : Stream.of(first, last);
    }

    private static boolean isSame(HashPartitioning one, HashPartitioning other) {
      return one.numPartitions() == other.numPartitions() && one.semanticEquals(other);
    }
  }
}
