package dev.colocation.spark.plan;

import dev.colocation.spark.plan.SortedFilesRdd.OrderedBucket;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** Batches of each bucket's files, read one file after the other in order. */
final class SortedBatchesRdd extends SortedFilesRdd<ColumnarBatch> {
  private static final long serialVersionUID = 1L;

  SortedBatchesRdd(FileScanRDD scan, OrderedBucket[] buckets, RangeCut range, SQLMetric rows) {
    super(scan, ColumnarBatch.class, buckets, range, rows);
  }

  @Override
  Iterator<ColumnarBatch> read(OrderedBucket bucket, TaskContext context) {
    if (bucket.sets().stream().anyMatch(chains -> chains.size() != 1)) {
      throw new IllegalStateException("files of bucket " + bucket.index() + " overlap, and were planned not to");
    }
    List<PartitionedFile> files = bucket.sets().stream().flatMap(List::stream).flatMap(List::stream).toList();
    return new Batches(open(bucket, files, context));
  }

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
      rows().add(batch.numRows());
      return batch;
    }
  }
}
