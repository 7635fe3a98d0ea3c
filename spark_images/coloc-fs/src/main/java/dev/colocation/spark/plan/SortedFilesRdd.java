package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.BiPredicate;
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
  private final SQLMetric rows;

  /**
   * Makes the buckets of a scan.
   *
   * @param rows counts what was read
   */
  SortedFilesRdd(FileScanRDD scan, Class<T> elements, OrderedBucket[] buckets, SQLMetric rows) {
    super(scan, ClassTag$.MODULE$.apply(elements));
    this.scan = scan;
    this.buckets = buckets;
    this.rows = rows;
  }

  /** The elements of one bucket. */
  abstract Iterator<T> read(OrderedBucket bucket, TaskContext context);

  FileScanRDD scan() {
    return scan;
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
   * @param sets one after the other; the files of one set are merged
   */
  record OrderedBucket(FilePartition scanned, List<PartitionedFile[]> sets) implements Partition {
    private static final long serialVersionUID = 1L;

    /** Every partition of a scan with its files in order, one by one. */
    static OrderedBucket[] inOrder(Partition[] scanned, Comparator<PartitionedFile> order) {
      return all(scanned, order, (one, other) -> false);
    }

    /** Every partition of a scan with its files in order; those that the order does not tell apart make a set. */
    static OrderedBucket[] inSets(Partition[] scanned, Comparator<PartitionedFile> order) {
      return all(scanned, order, (one, other) -> order.compare(one, other) == 0);
    }

    private static OrderedBucket[] all(
        Partition[] scanned, Comparator<PartitionedFile> order, BiPredicate<PartitionedFile, PartitionedFile> together) {
      return Arrays.stream(scanned)
          .map(partition -> of((FilePartition) partition, order, together))
          .toArray(OrderedBucket[]::new);
    }

    private static OrderedBucket of(
        FilePartition scanned, Comparator<PartitionedFile> order, BiPredicate<PartitionedFile, PartitionedFile> together) {
      PartitionedFile[] files = scanned.files().clone();
      Arrays.sort(files, order);
      List<PartitionedFile[]> sets = new ArrayList<>();
      int start = 0;
      for (int end = 1; end <= files.length; end++) {
        if (end == files.length || !together.test(files[start], files[end])) {
          sets.add(Arrays.copyOfRange(files, start, end));
          start = end;
        }
      }
      return new OrderedBucket(scanned, sets);
    }

    @Override
    public int index() {
      return scanned.index();
    }

    /** These files as a partition that the scan can read. */
    FilePartition partition(PartitionedFile... files) {
      return new FilePartition(index(), files);
    }
  }
}
