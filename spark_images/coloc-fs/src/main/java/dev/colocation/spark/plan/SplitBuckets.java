package dev.colocation.spark.plan;

import dev.colocation.spark.fs.ColocPath;
import dev.colocation.spark.fs.Settings;
import dev.colocation.spark.plan.KeyRanges.Piece;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.physical.AllTuples$;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.CollectLimitExec;
import org.apache.spark.sql.execution.ExpandExec;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.GenerateExec;
import org.apache.spark.sql.execution.LocalLimitExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.TakeOrderedAndProjectExec;
import org.apache.spark.sql.execution.adaptive.BroadcastQueryStageExec;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.datasources.BucketingUtils;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeLike;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import org.apache.spark.sql.execution.joins.ShuffledHashJoinExec;
import org.apache.spark.sql.execution.joins.SortMergeJoinExec;
import org.apache.spark.sql.execution.python.EvalPythonExec;
import org.apache.spark.sql.execution.python.EvalPythonUDTFExec;
import org.apache.spark.sql.execution.window.WindowExec;
import org.apache.spark.sql.execution.window.WindowGroupLimitExec;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * More tasks than buckets: where all of a stage's rows come from buckets, each bucket of all its tables is cut at the same keys, so
 * that a few large buckets keep many cores busy, and one that is larger than others keeps none waiting.
 *
 * <p>Rows that have to meet have the same bucket key, so they are in the same range of it. That holds for all operators that are
 * known here: each takes rows one by one, or asks for those of the same keys together, which buckets gave it. A stage with any other
 * operator, with rows from elsewhere, or that needs all rows in one task, stays as it is.
 */
public final class SplitBuckets extends Rule<SparkPlan> {
  /** How many tasks a stage should have; without it twice as many as the application has cores. 1 leaves a task per bucket. */
  static final String TASKS = "spark.colocation.minPartitionNum";
  /** What a range of a bucket should have at least. */
  static final String BYTES = "spark.colocation.minPartitionBytes";

  /** Of plans whose number of partitions matters, cached ones among them, Spark switches it off. */
  private static final String AUTOMATIC = "spark.sql.sources.bucketing.autoBucketedScan.enabled";
  private static final int MOST_RANGES = 32;
  /** How many times a task's share of all bytes a key has to have to be named. */
  private static final double HOT = 2;

  private final transient SparkSession session;

  /** For plans of a session: those of cached rows have one of their own, which need not be the active one. */
  public SplitBuckets(SparkSession session) {
    this.session = session;
  }

  @Override
  public SparkPlan apply(SparkPlan plan) {
    return UnknownSpark.orAsPlanned(plan, planned -> isOn() ? allStages(planned) : planned);
  }

  private boolean isOn() {
    SQLConf own = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf();
    return isTrue(own, AUTOMATIC) && isTrue(conf(), AUTOMATIC) && TrustSortedFiles.isOn(conf());
  }

  private static boolean isTrue(SQLConf conf, String name) {
    return conf.getConfString(name, "true").equalsIgnoreCase("true");
  }

  private SparkPlan allStages(SparkPlan plan) {
    return (plan instanceof Exchange ? plan : ofResult(plan)).transformUp(
        Replacing.each(Exchange.class, exchange -> withChildren(exchange, List.of(stage(exchange.child())))));
  }

  private SparkPlan ofResult(SparkPlan plan) {
    return plan instanceof CollectLimitExec || plan instanceof TakeOrderedAndProjectExec
        ? withChildren(plan, List.of(stage(plan.children().head()))) : stage(plan);
  }

  /** A stage without the operator that takes its rows elsewhere. */
  private SparkPlan stage(SparkPlan plan) {
    List<FileSourceScanExec> scans = new ArrayList<>();
    if (!isKnown(plan, scans) || scans.isEmpty() || !scans.stream().allMatch(SplitBuckets::isCutByKey)
        || scans.stream().map(scan -> List.of(CommonBuckets.readBy(scan), BucketKey.of(scan).get().dataType())).distinct().count() > 1) {
      return plan;
    }
    KeyRanges ranges = ranges(scans);
    return ranges.count() > 1 ? in(ranges, plan) : plan;
  }

  private static SparkPlan in(KeyRanges ranges, SparkPlan plan) {
    if (plan instanceof SortedBucketScanExec sorted) {
      return sorted.in(ranges);
    }
    if (plan instanceof FileSourceScanExec scan) {
      return new SortedBucketScanExec(scan, FileOrder.ANY).in(ranges);
    }
    return isOtherStage(plan) ? plan
        : withChildren(plan, CollectionConverters.asJava(plan.children()).stream().map(child -> in(ranges, child)).toList());
  }

  /** Whether a row's place in a plan depends on its keys alone; adds the scans that it comes from. */
  private static boolean isKnown(SparkPlan plan, List<FileSourceScanExec> scans) {
    if (plan instanceof FileSourceScanExec scan) {
      return scan.supportsColumnar() && scans.add(scan);
    }
    if (plan instanceof SortedBucketScanExec sorted) {
      return scans.add(sorted.plain());
    }
    return isOtherStage(plan)
        || keepsKeys(plan)
        && CollectionConverters.asJava(plan.expressions()).stream().allMatch(Expression::deterministic)
        && CollectionConverters.asJava(plan.requiredChildDistribution()).stream().noneMatch(AllTuples$.MODULE$::equals)
        && CollectionConverters.asJava(plan.children()).stream().allMatch(child -> isKnown(child, scans));
  }

  private static boolean isOtherStage(SparkPlan plan) {
    return plan instanceof BroadcastExchangeLike || plan instanceof BroadcastQueryStageExec;
  }

  private static boolean keepsKeys(SparkPlan plan) {
    return plan instanceof ProjectExec || plan instanceof FilterExec || plan instanceof ExpandExec || plan instanceof GenerateExec
        || plan instanceof SortExec sort && !sort.global() || plan instanceof LocalLimitExec
        || plan instanceof SortMergeJoinExec join && !join.isSkewJoin() || plan instanceof ShuffledHashJoinExec
        || plan instanceof BroadcastHashJoinExec || plan instanceof BaseAggregateExec || plan instanceof WindowExec
        || plan instanceof WindowGroupLimitExec || plan instanceof GroupExec || plan instanceof EvalPythonExec
        || plan instanceof EvalPythonUDTFExec || plan instanceof AlignedUnionExec;
  }

  /** Whether the scan reads buckets of a table of ours, from files that are sorted by its first bucket column. */
  private static boolean isCutByKey(FileSourceScanExec scan) {
    if (!scan.bucketedScan() || !ColocPath.isRootOf(scan.relation())) {
      return false;
    }
    Optional<Attribute> key = BucketKey.of(scan);
    return key.isPresent() && FileKeys.isKnown(key.get().dataType())
        && FileOrder.isSortedBy(scan, key.get().name());
  }

  /** Where to cut; nowhere when there are tasks enough, which sizes tell, or a file's keys are unknown, which are in manifests. */
  private KeyRanges ranges(List<FileSourceScanExec> scans) {
    int count = count(scans);
    List<Piece> pieces = count == 1 ? List.of() : scans.stream().flatMap(SplitBuckets::pieces).toList();
    return pieces.stream().allMatch(piece -> piece.keys().columns() > 0)
        ? KeyRanges.of(pieces, count).withHot(pieces, HOT / (count * CommonBuckets.readBy(scans.get(0)))) : KeyRanges.ALL;
  }

  private static Stream<Piece> pieces(FileSourceScanExec scan) {
    Settings settings = FileOrder.settings(scan);
    return files(scan).map(file -> new Piece(FileOrder.keys(file, settings), bytesToRead(scan, file)));
  }

  private static Stream<PartitionedFile> files(FileSourceScanExec scan) {
    return Stream.of(scan.selectedPartitions().toPartitionArray());
  }

  /** About as much as the scan's columns have of the file. */
  private static double bytesToRead(FileSourceScanExec scan, PartitionedFile file) {
    double share = (double) scan.requiredSchema().defaultSize() / Math.max(1, scan.relation().dataSchema().defaultSize());
    return file.length() * Math.min(1, share);
  }

  /** In how many ranges the largest bucket is as large as a task's share of all; each range has a minimum of bytes. */
  private int count(List<FileSourceScanExec> scans) {
    int buckets = CommonBuckets.readBy(scans.get(0));
    Map<Integer, Double> bytes = new HashMap<>();
    scans.forEach(scan -> files(scan).forEach(file -> bytes.merge(
        (int) BucketingUtils.getBucketId(file.toPath().getName()).get() % buckets, bytesToRead(scan, file), Double::sum)));
    double all = bytes.values().stream().mapToDouble(Double::doubleValue).sum();
    double most = bytes.values().stream().mapToDouble(Double::doubleValue).max().orElse(0);
    int cores = scans.get(0).session().sparkContext().defaultParallelism();
    double tasks = Integer.parseInt(conf().getConfString(TASKS, Integer.toString(2 * cores)));
    long least = JavaUtils.byteStringAsBytes(conf().getConfString(BYTES, "64m"));
    double count = Math.min(Math.round(most * tasks / Math.max(1, all)), most / Math.max(1, least));
    return (int) Math.max(1, Math.min(MOST_RANGES, count));
  }

  private static SparkPlan withChildren(SparkPlan plan, List<SparkPlan> children) {
    Seq<SparkPlan> all = CollectionConverters.asScala(children).toSeq();
    return plan.withNewChildren(all);
  }
}
