package dev.colocation.spark.plan;

import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
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
}
