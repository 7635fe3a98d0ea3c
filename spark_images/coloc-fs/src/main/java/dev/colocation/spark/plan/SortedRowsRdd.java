package dev.colocation.spark.plan;

import dev.colocation.spark.plan.RowMerge.RowStream;
import dev.colocation.spark.plan.RowMerge.SortPrefix;
import dev.colocation.spark.plan.SortedFilesRdd.OrderedBucket;
import java.util.Comparator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.RowOrdering;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.collection.immutable.Seq;

/** Rows of each bucket's files: sets of files one after the other, the chains of a set merged. */
final class SortedRowsRdd extends SortedFilesRdd<InternalRow> {
  private static final long serialVersionUID = 1L;

  private final Seq<SortOrder> rowOrder;
  private final Seq<Attribute> columns;

  SortedRowsRdd(
      FileScanRDD scan, OrderedBucket[] buckets, RangeCut range, FirstKeys keys, Seq<SortOrder> rowOrder, Seq<Attribute> columns,
      SQLMetric rows) {
    super(scan, InternalRow.class, buckets, range, keys, rows);
    this.rowOrder = rowOrder;
    this.columns = columns;
  }

  @Override
  InOrder<InternalRow> read(OrderedBucket bucket, TaskContext context) {
    return new Rows(bucket, context);
  }

  /** One set's merge after the other; a row is valid until the next one. */
  private final class Rows extends InOrder<InternalRow> {
    private final OrderedBucket bucket;
    private final TaskContext context;
    private final java.util.Iterator<List<List<PartitionedFile>>> sets;
    private final Comparator<InternalRow> order = RowOrdering.create(rowOrder, columns);
    private final SortPrefix prefixes = SortPrefix.of(rowOrder, columns);
    private RowMerge merge = new RowMerge(List.of(), order, prefixes);
    private boolean advanced;
    private Object firstKey;
    private boolean begun;

    Rows(OrderedBucket bucket, TaskContext context) {
      this.bucket = bucket;
      this.context = context;
      sets = bucket.sets().iterator();
    }

    @Override
    public boolean hasNext() {
      while (!advanced) {
        if (merge.advance()) {
          advanced = true;
          begin();
        } else if (sets.hasNext()) {
          merge = new RowMerge(sets.next().stream().map(this::open).toList(), order, prefixes);
        } else {
          return false;
        }
      }
      return true;
    }

    @Override
    public Object firstKey() {
      return begun || hasNext() ? firstKey : null;
    }

    private void begin() {
      if (!begun) {
        begun = true;
        firstKey = key(merge.row());
      }
    }

    @Override
    public InternalRow next() {
      if (!hasNext()) {
        throw new NoSuchElementException("all rows of bucket " + bucket.index() + " were read");
      }
      advanced = false;
      rows().add(1);
      return merge.row();
    }

    private RowStream open(List<PartitionedFile> chain) {
      return new RowStream(SortedRowsRdd.this.open(bucket, chain, context), prefixes);
    }
  }
}
