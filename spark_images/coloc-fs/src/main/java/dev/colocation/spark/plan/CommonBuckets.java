package dev.colocation.spark.plan;

import dev.colocation.spark.fs.ColocPath;
import java.math.BigInteger;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Has a query read the tables of a group by one number of buckets, so that joins of tables with different numbers need no shuffle.
 *
 * <p>Numbers of a group's tables are multiples of the group's, and {@code pmod(hash, 32) mod 8 = pmod(hash, 8)}: a task of 8 reads
 * the buckets j, j + 8, j + 16 and j + 24 of a table with 32. The number is the largest that divides those of all tables which are
 * too large to be broadcast. Spark's scan does the rest ({@code optionalNumCoalescedBuckets}, which Spark itself sets for some joins
 * of two tables); {@link FileOrder} merges the files of a task, and {@link SplitBuckets} makes tasks of ranges of the key.
 */
public final class CommonBuckets extends Rule<LogicalPlan> {
  /** Option of a relation: the group that its table is in. */
  public static final String GROUP = "colocation.group";

  /** Option of a relation that is read by fewer buckets than its table has: their number. */
  private static final String READ = "colocation.buckets";
  private static final String COALESCED = "optionalNumCoalescedBuckets";

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return UnknownSpark.orAsPlanned(plan, CommonBuckets::withCommonBuckets);
  }

  private static LogicalPlan withCommonBuckets(LogicalPlan plan) {
    Map<String, Set<Integer>> numbers = new HashMap<>();
    for (LogicalPlan leaf : CollectionConverters.asJava(plan.collectWithSubqueries(new BucketedLeaves()))) {
      numbers.computeIfAbsent(group(files(leaf).orElseThrow()), absent -> new HashSet<>()).addAll(counted(leaf));
    }
    Map<String, Integer> common = new HashMap<>();
    numbers.forEach((group, found) -> found.stream().reduce(CommonBuckets::divisor).ifPresent(number -> common.put(group, number)));
    return numbers.values().stream().allMatch(found -> found.size() < 2) ? plan : plan.transformWithSubqueries(new Coarser(common));
  }

  private static int divisor(int one, int other) {
    return BigInteger.valueOf(one).gcd(BigInteger.valueOf(other)).intValue();
  }

  /** The table's number; none for a table that a join broadcasts anyway. */
  private static Set<Integer> counted(LogicalPlan leaf) {
    long most = SQLConf.get().autoBroadcastJoinThreshold();
    return leaf.stats().sizeInBytes().bigInteger().compareTo(BigInteger.valueOf(most)) <= 0 ? Set.of() : Set.of(number(files(leaf).get()));
  }

  private static int number(HadoopFsRelation relation) {
    return relation.bucketSpec().get().numBuckets();
  }

  private static String group(HadoopFsRelation relation) {
    Option<String> group = relation.options().get(GROUP);
    return group.isEmpty() ? "" : group.get();
  }

  /** The files of a table that is read by buckets. */
  static Optional<HadoopFsRelation> files(LogicalPlan node) {
    return node instanceof LogicalRelation logical && logical.relation() instanceof HadoopFsRelation relation
        && ColocPath.isRootOf(relation) && relation.bucketSpec().isDefined() && !group(relation).isEmpty()
            ? Optional.of(relation) : Optional.empty();
  }

  private static final class BucketedLeaves extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return files(node).isPresent();
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      return node;
    }
  }

  /** Relations with the number by which they are read, where their tables have more. */
  private static final class Coarser extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1L;

    private final transient Map<String, Integer> common;

    Coarser(Map<String, Integer> common) {
      this.common = common;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return files(node).filter(relation -> number(relation) % common.getOrDefault(group(relation), number(relation)) == 0
          && number(relation) > common.getOrDefault(group(relation), number(relation))).isPresent();
    }

    @Override
    @SuppressWarnings("unchecked") // Java does not see the element types of Scala's collections
    public LogicalPlan apply(LogicalPlan node) {
      LogicalRelation logical = (LogicalRelation) node;
      HadoopFsRelation relation = (HadoopFsRelation) logical.relation();
      scala.collection.immutable.Map<String, String> options = (scala.collection.immutable.Map<String, String>)
          relation.options().updated(READ, String.valueOf(common.get(group(relation))));
      HadoopFsRelation coarser = new HadoopFsRelation(
          relation.location(), relation.partitionSchema(), relation.dataSchema(), relation.bucketSpec(),
          relation.fileFormat(), options, relation.sparkSession());
      return logical.copy(coarser, logical.output(), logical.catalogTable(), logical.isStreaming(), logical.stream());
    }
  }

  /** Plans scans of these relations. */
  public static final class Scans extends SparkStrategy {
    @Override
    public Seq<SparkPlan> apply(LogicalPlan plan) {
      return isCoarser(plan) ? UnknownSpark.orAsPlanned(sequence(List.of()), nothing -> planned(plan)) : sequence(List.of());
    }

    private static boolean isCoarser(LogicalPlan plan) {
      if (plan instanceof Project || plan instanceof Filter) {
        return isCoarser(plan.children().head());
      }
      return files(plan).filter(relation -> relation.options().contains(READ)).isPresent();
    }
  }

  /** Spark's own plan of a relation, read by the number of buckets that the rule has found. */
  static Seq<SparkPlan> planned(LogicalPlan plan) {
    return sequence(CollectionConverters.asJava(FileSourceStrategy$.MODULE$.apply(plan)).stream()
        .map(scan -> scan.transformUp(new Coalesced())).toList());
  }

  private static final class Coalesced extends AbstractPartialFunction<SparkPlan, SparkPlan> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(SparkPlan node) {
      return node instanceof FileSourceScanExec scan && scan.relation().options().contains(READ);
    }

    @Override
    public SparkPlan apply(SparkPlan node) {
      FileSourceScanExec scan = (FileSourceScanExec) node;
      return PlanFields.with(scan, COALESCED, Option.apply(Integer.parseInt(scan.relation().options().apply(READ))));
    }
  }

  /** By how many buckets a bucketed scan reads its table. */
  static int readBy(FileSourceScanExec scan) {
    return scan.optionalNumCoalescedBuckets().isDefined()
        ? (int) scan.optionalNumCoalescedBuckets().get() : scan.relation().bucketSpec().get().numBuckets();
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
