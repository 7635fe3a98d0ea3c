package dev.colocation.spark.plan;

import dev.colocation.spark.plan.SortedFilesRdd.OrderedBucket;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.Iterator;

/** Batches of each bucket's files, read one file after the other in order. */
final class SortedBatchesRdd extends SortedFilesRdd<ColumnarBatch> {
  private static final long serialVersionUID = 1L;

  SortedBatchesRdd(FileScanRDD scan, OrderedBucket[] buckets, RangeCut range, FirstKeys keys, SQLMetric rows) {
    super(scan, ColumnarBatch.class, buckets, range, keys, rows);
  }

  @Override
  InOrder<ColumnarBatch> read(OrderedBucket bucket, TaskContext context) {
    if (bucket.sets().stream().anyMatch(chains -> chains.size() != 1)) {
      throw new IllegalStateException("files of bucket " + bucket.index() + " overlap, and were planned not to");
    }
    List<PartitionedFile> files = bucket.sets().stream().flatMap(List::stream).flatMap(List::stream).toList();
    return new Batches(open(bucket, files, context));
  }

  private final class Batches extends InOrder<ColumnarBatch> {
    private final Iterator<?> elements;
    private ColumnarBatch first;
    private Object firstKey;
    private boolean begun;

    Batches(Iterator<?> elements) {
      this.elements = elements;
    }

    @Override
    public boolean hasNext() {
      begin();
      return first != null || elements.hasNext();
    }

    @Override
    public Object firstKey() {
      begin();
      return firstKey;
    }

    private void begin() {
      if (!begun) {
        begun = true;
        while (first == null && elements.hasNext()) {
          ColumnarBatch batch = (ColumnarBatch) elements.next();
          first = batch.numRows() > 0 ? batch : null;
        }
        firstKey = first == null ? null : key(first.getRow(0));
      }
    }

    @Override
    public ColumnarBatch next() {
      begin();
      ColumnarBatch batch = first != null ? first : (ColumnarBatch) elements.next();
      first = null;
      rows().add(batch.numRows());
      return batch;
    }
  }
}
