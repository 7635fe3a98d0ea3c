package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/** A scan's buckets, each task one, where the scan would run it, with the bucket's files in order. */
abstract class SortedFilesRdd<T> extends RDD<T> {
  private static final long serialVersionUID = 1L;

  private final transient Partition[] buckets;
  private final FileScanRDD scan;
  private final RangeCut range;
  private final FirstKeys keys;
  private final SQLMetric rows;

  /**
   * Makes the buckets of a scan.
   *
   * @param range of the rows that are wanted; null for all
   * @param keys with which the scans of a join begin
   * @param rows counts what was read
   */
  SortedFilesRdd(FileScanRDD scan, Class<T> elements, OrderedBucket[] buckets, RangeCut range, FirstKeys keys, SQLMetric rows) {
    super(scan, ClassTag$.MODULE$.apply(elements));
    this.scan = scan;
    this.buckets = buckets;
    this.range = range;
    this.keys = keys;
    this.rows = rows;
  }

  /** The elements of one bucket. */
  abstract InOrder<T> read(OrderedBucket bucket, TaskContext context);

  /** A bucket's elements; the first ones may be asked for their first key before they are read. */
  abstract static class InOrder<T> extends AbstractIterator<T> implements FirstKeys.Source {}

  /** What the scan gives of these files, one after the other: Spark declares it as rows, also where it is batches. */
  final Iterator<?> open(OrderedBucket bucket, List<PartitionedFile> files, TaskContext context) {
    Iterator<?> elements = scan.compute(bucket.partition(files), context);
    Iterator<?> needed = keys.asked().isEmpty() ? elements : new Needed(elements, bucket.index(), context);
    return range == null ? needed : range.cut(needed);
  }

  SQLMetric rows() {
    return rows;
  }

  @Override
  public Partition[] getPartitions() {
    return buckets;
  }

  @Override
  public Seq<String> getPreferredLocations(Partition split) {
    return scan.preferredLocations(((OrderedBucket) split).scanned());
  }

  @Override
  public Iterator<T> compute(Partition split, TaskContext context) {
    InOrder<T> elements = read((OrderedBucket) split, context);
    keys.give(context, split.index(), elements);
    return elements;
  }

  /** The key of a row, for other scans that ask for it; null when it is NULL, or no scan asks. It stays valid when the row does not. */
  final Object key(InternalRow row) {
    Object key = keys.own().isEmpty() || row.isNullAt(keys.column()) ? null : row.get(keys.column(), keys.type());
    return key instanceof UTF8String text ? text.clone() : key;
  }

  /** What is read of files from the least key on that is needed, which is known when the first file is opened. */
  private final class Needed extends AbstractIterator<Object> {
    private final Iterator<?> elements;
    private final int bucket;
    private final TaskContext context;
    private Object least;
    private boolean begun;

    Needed(Iterator<?> elements, int bucket, TaskContext context) {
      this.elements = elements;
      this.bucket = bucket;
      this.context = context;
    }

    @Override
    public boolean hasNext() {
      if (!begun) {
        begun = true;
        least = keys.least(context, bucket);
      }
      return SkippingParquet.from(least, elements::hasNext);
    }

    @Override
    public Object next() {
      return elements.next();
    }
  }

  /**
   * A bucket's files in the order in which they are read.
   *
   * @param scanned the partition of the scan, which knows the files' hosts
   * @param sets one after the other; a set's chains of files are merged, the files of a chain are read one after the other
   */
  record OrderedBucket(FilePartition scanned, List<List<List<PartitionedFile>>> sets) implements Partition {
    private static final long serialVersionUID = 1L;

    /**
     * Every partition of a scan with its files in order.
     *
     * @param order of the sets
     * @param chains of the files of a set, which that order does not tell apart
     */
    static OrderedBucket[] all(
        FileScanRDD scan, Comparator<PartitionedFile> order, Function<List<PartitionedFile>, List<List<PartitionedFile>>> chains) {
      return Arrays.stream(scan.partitions()).map(one -> {
        FilePartition scanned = (FilePartition) one;
        return new OrderedBucket(scanned, sets(scanned, order).stream().map(chains).toList());
      }).toArray(OrderedBucket[]::new);
    }

    private static List<List<PartitionedFile>> sets(FilePartition scanned, Comparator<PartitionedFile> order) {
      PartitionedFile[] files = scanned.files().clone();
      Arrays.sort(files, order);
      List<List<PartitionedFile>> sets = new ArrayList<>();
      int start = 0;
      for (int end = 1; end <= files.length; end++) {
        if (end == files.length || order.compare(files[start], files[end]) != 0) {
          sets.add(List.of(Arrays.copyOfRange(files, start, end)));
          start = end;
        }
      }
      return sets;
    }

    @Override
    public int index() {
      return scanned.index();
    }

    /** These files as a partition that the scan can read. */
    FilePartition partition(List<PartitionedFile> files) {
      return new FilePartition(index(), files.toArray(PartitionedFile[]::new));
    }
  }
}
