package dev.colocation.spark.plan;

import java.io.Serializable;
import java.util.Comparator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.RowOrdering;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Leaves those rows of sorted files whose keys are in a range. Filters that were pushed to Parquet leave out most of the others, but a
 * page at the range's edge as a whole.
 *
 * @param column of the key in the rows
 * @param type of the key
 * @param from the least key of the range as Spark has it; null when it begins with NULL
 * @param to the least key behind the range; null when it ends with the last one
 */
record RangeCut(int column, DataType type, Object from, Object to) implements Serializable {
  /** Of one of several ranges. */
  static RangeCut of(KeyRanges ranges, int range, int column, DataType type) {
    return new RangeCut(column, type, range == 0 ? null : KeyRanges.literal(ranges.bounds().get(range - 1), type).value(),
        range == ranges.bounds().size() ? null : KeyRanges.literal(ranges.bounds().get(range), type).value());
  }

  /** The rows in the range of what a scan gives: rows, or batches, each of rows of one sorted file. */
  Iterator<?> cut(Iterator<?> elements) {
    return new Elements(elements);
  }

  private final class Elements extends AbstractIterator<Object> {
    private final Iterator<?> elements;
    private final Comparator<InternalRow> order = order();
    private final InternalRow least = bound(from);
    private final InternalRow behind = bound(to);
    private Object next;

    Elements(Iterator<?> elements) {
      this.elements = elements;
    }

    @Override
    public boolean hasNext() {
      while (next == null && elements.hasNext()) {
        Object element = elements.next();
        next = element instanceof ColumnarBatch batch ? within(batch) : isWithin((InternalRow) element) ? element : null;
      }
      return next != null;
    }

    @Override
    public Object next() {
      if (!hasNext()) {
        throw new NoSuchElementException("all rows of the range were read");
      }
      Object element = next;
      next = null;
      return element;
    }

    private boolean isWithin(InternalRow row) {
      return (from == null || order.compare(row, least) >= 0) && (to == null || order.compare(row, behind) < 0);
    }

    /** The batch's rows in the range; null when there are none. */
    private ColumnarBatch within(ColumnarBatch batch) {
      int begin = from == null ? 0 : rowsBelow(batch, least);
      int end = to == null ? batch.numRows() : rowsBelow(batch, behind);
      if (begin == 0) {
        batch.setNumRows(end);
        return end > 0 ? batch : null;
      }
      return end > begin ? part(batch, begin, end) : null;
    }

    /** How many rows come before a key, by halving. */
    private int rowsBelow(ColumnarBatch batch, InternalRow key) {
      int begin = 0;
      int end = batch.numRows();
      while (begin < end) {
        int middle = (begin + end) >>> 1;
        if (order.compare(batch.getRow(middle), key) < 0) {
          begin = middle + 1;
        } else {
          end = middle;
        }
      }
      return begin;
    }
  }

  private static ColumnarBatch part(ColumnarBatch batch, int begin, int end) {
    ColumnVector[] columns = new ColumnVector[batch.numCols()];
    for (int place = 0; place < columns.length; place++) {
      columns[place] = new LaterRows(batch.column(place), begin);
    }
    return new ColumnarBatch(columns, end - begin);
  }

  /** By the key, NULL first. */
  private Comparator<InternalRow> order() {
    SortOrder byKey = new SortOrder(new BoundReference(column, type, true), Ascending$.MODULE$,
        Ascending$.MODULE$.defaultNullOrdering(), sequence(List.of()));
    return RowOrdering.create(sequence(List.of(byKey)), sequence(List.of()));
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }

  private InternalRow bound(Object key) {
    Object[] values = new Object[column + 1];
    values[column] = key;
    return new GenericInternalRow(values);
  }
}
