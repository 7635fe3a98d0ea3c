package dev.colocation.spark;

import java.util.Arrays;
import java.util.Comparator;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/** Batches of each bucket's files, read one file after the other in order. */
final class SortedBatchesRdd extends RDD<ColumnarBatch> {
  private static final long serialVersionUID = 1L;

  private final transient Partition[] buckets;
  private final FileScanRDD scan;
  private final SQLMetric rows;

  SortedBatchesRdd(FileScanRDD scan, Comparator<PartitionedFile> order, SQLMetric rows) {
    super(scan, ClassTag$.MODULE$.apply(ColumnarBatch.class));
    this.scan = scan;
    this.rows = rows;
    buckets = OrderedBucket.inOrder(scan.partitions(), order);
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
  public Iterator<ColumnarBatch> compute(Partition split, TaskContext context) {
    OrderedBucket bucket = (OrderedBucket) split;
    PartitionedFile[] files = bucket.sets().stream().flatMap(Arrays::stream).toArray(PartitionedFile[]::new);
    return new Batches(scan.compute(bucket.partition(files), context));
  }

  /** Spark declares the scan's elements as rows, also where they are batches. */
  private final class Batches extends AbstractIterator<ColumnarBatch> {
    private final Iterator<?> elements;

    Batches(Iterator<?> elements) {
      this.elements = elements;
    }

    @Override
    public boolean hasNext() {
      return elements.hasNext();
    }

    @Override
    public ColumnarBatch next() {
      ColumnarBatch batch = (ColumnarBatch) elements.next();
      rows.add(batch.numRows());
      return batch;
    }
  }
}
