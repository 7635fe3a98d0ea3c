package dev.colocation.spark.plan;

import dev.colocation.spark.plan.SortedFilesRdd.OrderedBucket;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.rdd.RDD;
import org.apache.spark.rdd.UnionRDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.RowOrdering;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Option;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.math.Ordering;
import scala.reflect.ClassTag$;

/**
 * A bucketed scan whose partitions come in the order of a {@link FileOrder}. It stands for the scan, which it reads through, so
 * that pruning, pushed filters, locations and metrics are Spark's.
 *
 * <p>With several {@link KeyRanges}, each bucket is read by as many tasks, of which each reads the rows of one range: first all
 * buckets' rows of the first range, then those of the second, and so on. Such partitions are no buckets any more.
 */
public final class SortedBucketScanExec extends SparkPlan implements StandsFor {
  private static final long serialVersionUID = 1L;

  private final FileSourceScanExec scan;
  private final transient FileOrder order;
  private final transient KeyRanges ranges;
  private final transient FirstKeys keys;

  SortedBucketScanExec(FileSourceScanExec scan, FileOrder order) {
    this(scan, order, KeyRanges.ALL, FirstKeys.NONE);
  }

  private SortedBucketScanExec(FileSourceScanExec scan, FileOrder order, KeyRanges ranges, FirstKeys keys) {
    this.scan = scan;
    this.order = order;
    this.ranges = ranges;
    this.keys = keys;
  }

  /** The same by ranges of the first bucket column, by which the rows of each file are sorted. */
  SortedBucketScanExec in(KeyRanges several) {
    return new SortedBucketScanExec(scan, order, several, keys);
  }

  /** Whether the rows come sorted by this column first, whose values files can be asked for. */
  boolean isSortedFirstBy(Attribute column) {
    return order.leading().isEmpty() && !order.merged().isEmpty() && order.merged().get(0).exprId().equals(column.exprId())
        && FileKeys.isKnown(column.dataType()) && !scan.relation().partitionSchema().exists(field -> field.name().equals(column.name()));
  }

  /** The first keys of a scan for which {@link #isSortedFirstBy} holds. */
  FirstKeys keys() {
    AttributeReference first = order.merged().get(0);
    return keys == FirstKeys.NONE
        ? new FirstKeys("", List.of(), positionOf(first, CollectionConverters.asJava(output())), first.dataType()) : keys;
  }

  /** The same scan, which gives its first key and asks for others'. */
  SortedBucketScanExec with(FirstKeys first) {
    return new SortedBucketScanExec(first.asked().isEmpty() ? scan : SkippingParquet.in(scan, order.merged().get(0)), order, ranges, first);
  }

  /** The scan as Spark planned it. */
  @Override
  public FileSourceScanExec plain() {
    return scan;
  }

  @Override
  public Seq<Attribute> output() {
    return scan.output();
  }

  @Override
  public AttributeSet producedAttributes() {
    return outputSet();
  }

  @Override
  public Partitioning outputPartitioning() {
    Partitioning buckets = scan.outputPartitioning();
    return isWhole() ? buckets : new UnknownPartitioning(buckets.numPartitions() * ranges.count());
  }

  private boolean isWhole() {
    return ranges.count() == 1;
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    StructType partitions = scan.relation().partitionSchema();
    List<Attribute> columns = CollectionConverters.asJava(output());
    Stream<Attribute> leading = order.leading().stream()
        .map(position -> partitions.apply(position).name())
        .map(name -> columns.stream().filter(column -> column.name().equals(name)).findFirst().orElseThrow());
    return sequence(Stream.concat(leading, order.merged().stream())
        .map(SortedBucketScanExec::ascending).toList());
  }

  /** Merged rows come one by one; files that are only read in order come in Spark's batches. */
  @Override
  public boolean supportsColumnar() {
    return !order.merging() && scan.supportsColumnar();
  }

  @Override
  public Option<Seq<String>> vectorTypes() {
    return isWhole() ? scan.vectorTypes() : Option.empty();
  }

  @Override
  public Map<String, SQLMetric> metrics() {
    return scan.metrics();
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return inRanges(InternalRow.class, (files, range, first) ->
        new SortedRowsRdd(files, inOrder(files), range, first, rowOrder(), output(), rowCount()));
  }

  @Override
  public RDD<ColumnarBatch> doExecuteColumnar() {
    return inRanges(
        ColumnarBatch.class, (files, range, first) -> new SortedBatchesRdd(files, inOrder(files), range, first, rowCount()));
  }

  /** Makes the buckets of one range. */
  private interface Reader<T> {
    RDD<T> apply(FileScanRDD files, RangeCut range, FirstKeys first);
  }

  private SQLMetric rowCount() {
    return metrics().apply("numOutputRows");
  }

  /** The buckets of each range. The scan itself, of all ranges, is executed for its metrics. */
  private <T> RDD<T> inRanges(Class<T> elements, Reader<T> read) {
    FileScanRDD all = files(scan);
    if (isWhole()) {
      return read.apply(all, null, keys);
    }
    Attribute key = BucketKey.of(scan).orElseThrow();
    int column = positionOf(key, CollectionConverters.asJava(output()));
    List<RDD<T>> parts = IntStream.range(0, ranges.count())
        .mapToObj(range -> read.apply(
            files(BucketKey.filtered(scan, ranges.conditions(key, range))), RangeCut.of(ranges, range, column, key.dataType()),
            keys.in(range)))
        .toList();
    return new UnionRDD<>(all.sparkContext(), sequence(parts), ClassTag$.MODULE$.apply(elements));
  }

  /** A scan's own files, after what prunes them at run time is known: Spark waits for that when a plan is executed. */
  private static FileScanRDD files(FileSourceScanExec scan) {
    if (scan.supportsColumnar()) {
      scan.executeColumnar();
    } else {
      scan.execute();
    }
    return (FileScanRDD) scan.inputRDD();
  }

  private OrderedBucket[] inOrder(FileScanRDD files) {
    return OrderedBucket.all(files, bucketOrder(), order::chains);
  }

  private Comparator<PartitionedFile> bucketOrder() {
    StructType schema = scan.relation().partitionSchema();
    List<SortOrder> columns = order.leading().stream()
        .map(position -> ascending(new BoundReference(position, schema.apply(position).dataType(), true)))
        .toList();
    Ordering<InternalRow> values = RowOrdering.create(sequence(columns), sequence(List.of()));
    return (one, other) -> values.compare(one.partitionValues(), other.partitionValues());
  }

  private Seq<SortOrder> rowOrder() {
    return sequence(order.merged().stream().map(SortedBucketScanExec::ascending).toList());
  }

  private static SortOrder ascending(Expression column) {
    return new SortOrder(column, Ascending$.MODULE$, Ascending$.MODULE$.defaultNullOrdering(), sequence(List.of()));
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }

  @Override
  public Seq<SparkPlan> children() {
    return sequence(List.of());
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return this;
  }

  /** Shown below this node by EXPLAIN. */
  @Override
  @SuppressWarnings({"rawtypes", "unchecked"}) // Scala's covariant Seq has no type in Java that fits both superclasses
  public Seq innerChildren() {
    return sequence(List.of(scan));
  }

  @Override
  public String simpleString(int maxFields) {
    String how = order.merging() ? "files merged" : "files in order";
    return nodeName() + " " + how + outputOrdering().mkString(" by [", ", ", "]") + ranges().map(", "::concat).orElse("")
        + (keys.asked().isEmpty() ? "" : ", from the first key of the join's other side");
  }

  /** In how many ranges the buckets are read, and which key is most of one; empty = one task reads all of a bucket. */
  public Optional<String> ranges() {
    if (isWhole()) {
      return Optional.empty();
    }
    int buckets = scan.outputPartitioning().numPartitions();
    DataType type = BucketKey.of(scan).orElseThrow().dataType();
    String hot = ranges.hot().stream().map(most -> ", of which "
        + (most.key() == null ? "NULL" : KeyRanges.literal(most.key(), type)) + " alone has "
        + Math.round(100 * most.share()) + " % of the bytes").collect(Collectors.joining());
    return Optional.of(buckets + " buckets in " + buckets * ranges.count() + " ranges" + hot);
  }

  @Override
  public SparkPlan doCanonicalize() {
    List<Attribute> columns = CollectionConverters.asJava(scan.output());
    SparkPlan canonical = scan.canonicalized();
    List<AttributeReference> merged = order.merged().stream()
        .map(column -> (AttributeReference) canonical.output().apply(positionOf(column, columns)))
        .toList();
    return new SortedBucketScanExec((FileSourceScanExec) canonical, order.of(merged), ranges, keys.canonical());
  }

  private static int positionOf(Attribute column, List<Attribute> columns) {
    int position = 0;
    while (!columns.get(position).exprId().equals(column.exprId())) {
      position++;
    }
    return position;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof SortedBucketScanExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof SortedBucketScanExec that && scan.equals(that.scan) && Objects.equals(order, that.order)
        && Objects.equals(ranges, that.ranges) && Objects.equals(keys, that.keys);
  }

  @Override
  public int hashCode() {
    return Objects.hash(scan, order, ranges, keys);
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
