package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/** A scan's buckets, each task one, where the scan would run it, with the bucket's files in order. */
abstract class SortedFilesRdd<T> extends RDD<T> {
  private static final long serialVersionUID = 1L;

  private final transient Partition[] buckets;
  private final FileScanRDD scan;
  private final RangeCut range;
  private final SQLMetric rows;

  /**
   * Makes the buckets of a scan.
   *
   * @param range of the rows that are wanted; null for all
   * @param rows counts what was read
   */
  SortedFilesRdd(FileScanRDD scan, Class<T> elements, OrderedBucket[] buckets, RangeCut range, SQLMetric rows) {
    super(scan, ClassTag$.MODULE$.apply(elements));
    this.scan = scan;
    this.buckets = buckets;
    this.range = range;
    this.rows = rows;
  }

  /** The elements of one bucket. */
  abstract Iterator<T> read(OrderedBucket bucket, TaskContext context);

  /** What the scan gives of these files, one after the other: Spark declares it as rows, also where it is batches. */
  final Iterator<?> open(OrderedBucket bucket, List<PartitionedFile> files, TaskContext context) {
    Iterator<?> elements = scan.compute(bucket.partition(files), context);
    return range == null ? elements : range.cut(elements);
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
    return read((OrderedBucket) split, context);
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
