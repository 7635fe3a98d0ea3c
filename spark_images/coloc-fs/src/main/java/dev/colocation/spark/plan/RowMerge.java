package dev.colocation.spark.plan;

import java.io.Serializable;
import java.util.Comparator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.types.ByteType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType$;
import org.apache.spark.sql.types.IntegerType$;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.NullType$;
import org.apache.spark.sql.types.ShortType$;
import org.apache.spark.sql.types.TimestampNTZType$;
import org.apache.spark.sql.types.TimestampType$;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/**
 * Merges sorted streams into one: a binary heap of the streams, the one with the least row on top. Among equal rows any
 * order is right, as after a sort.
 */
final class RowMerge {
  private final Comparator<? super InternalRow> order;
  private final SortPrefix prefixes;
  private final RowStream[] heap;
  private int size;
  private boolean begun;

  RowMerge(List<RowStream> streams, Comparator<? super InternalRow> order, SortPrefix prefixes) {
    this.order = order;
    this.prefixes = prefixes;
    heap = streams.toArray(RowStream[]::new);
  }

  /** Goes to the next row, if there is one. */
  boolean advance() {
    if (!begun) {
      begin();
    } else if (size > 0) {
      if (!heap[0].advance()) {
        heap[0] = heap[--size];
      }
      sink(0);
    }
    return size > 0;
  }

  /** The current row; valid until the next {@link #advance}. */
  InternalRow row() {
    return heap[0].row();
  }

  private void begin() {
    begun = true;
    for (RowStream stream : heap.clone()) {
      if (stream.advance()) {
        heap[size++] = stream;
      }
    }
    for (int position = size / 2 - 1; position >= 0; position--) {
      sink(position);
    }
  }

  private void sink(int from) {
    int position = from;
    while (true) {
      int child = 2 * position + 1;
      if (child >= size) {
        return;
      }
      if (child + 1 < size && compare(heap[child + 1], heap[child]) < 0) {
        child++;
      }
      if (compare(heap[position], heap[child]) <= 0) {
        return;
      }
      RowStream lifted = heap[child];
      heap[child] = heap[position];
      heap[position] = lifted;
      position = child;
    }
  }

  private int compare(RowStream one, RowStream other) {
    if (one.prefix() != other.prefix()) {
      return Long.compare(one.prefix(), other.prefix());
    }
    return prefixes.decides(one.prefix()) ? 0 : order.compare(one.row(), other.row());
  }

  /** The rows of one file, whether its reader gives them in batches or one by one. */
  static final class RowStream {
    private final Iterator<?> elements;
    private final SortPrefix prefixes;
    private ColumnarBatch batch;
    private int position;
    private InternalRow row;
    private long prefix;

    /** Takes what {@code FileScanRDD.compute} gives: its declared type is that of rows, batches come in disguise. */
    RowStream(Iterator<?> elements, SortPrefix prefixes) {
      this.elements = elements;
      this.prefixes = prefixes;
    }

    /** Goes to the next row, if there is one. */
    boolean advance() {
      while (batch == null || ++position >= batch.numRows()) {
        if (!elements.hasNext()) {
          return false;
        }
        Object element = elements.next();
        if (!(element instanceof ColumnarBatch next)) {
          return stopAt((InternalRow) element);
        }
        batch = next;
        position = -1;
      }
      return stopAt(batch.getRow(position));
    }

    private boolean stopAt(InternalRow next) {
      row = next;
      prefix = prefixes.of(next);
      return true;
    }

    /** The current row; valid until the next {@link #advance}. */
    InternalRow row() {
      return row;
    }

    /** The current row's {@link SortPrefix}. */
    long prefix() {
      return prefix;
    }
  }

  /**
   * A number per row that orders most rows without looking at them again: the first sort column, where it is a whole number, a
   * date or a time.
   *
   * @param column its position in the row
   * @param type its type
   * @param only whether it is the only sort column
   */
  record SortPrefix(int column, DataType type, boolean only) implements Serializable {
    /** For rows that need no order. */
    static final SortPrefix NONE = new SortPrefix(0, NullType$.MODULE$, false);

    /** Stands for NULL, for the least number, and for columns of other types: such rows have to be compared. */
    static final long UNKNOWN = Long.MIN_VALUE;

    /** Of the first column of an order; none where it is no plain column of these. */
    static SortPrefix of(Seq<SortOrder> order, Seq<Attribute> columns) {
      for (int position = 0; !order.isEmpty() && position < columns.size(); position++) {
        if (order.head().child() instanceof Attribute first && columns.apply(position).exprId().equals(first.exprId())) {
          return new SortPrefix(position, first.dataType(), order.size() == 1);
        }
      }
      return NONE;
    }

    /** The row's number. Rows of different numbers are ordered as these are. */
    long of(InternalRow row) {
      if (!isNumber() || row.isNullAt(column)) {
        return UNKNOWN;
      }
      if (isLong()) {
        return row.getLong(column);
      }
      if (type == ShortType$.MODULE$) {
        return row.getShort(column);
      }
      return type == ByteType$.MODULE$ ? row.getByte(column) : row.getInt(column);
    }

    /** Whether rows that have this number in common are equal. */
    boolean decides(long prefix) {
      return only && prefix != UNKNOWN;
    }

    private boolean isLong() {
      return type == LongType$.MODULE$ || type == TimestampType$.MODULE$ || type == TimestampNTZType$.MODULE$;
    }

    private boolean isNumber() {
      return isLong() || type == IntegerType$.MODULE$ || type == DateType$.MODULE$ || type == ShortType$.MODULE$
          || type == ByteType$.MODULE$;
    }
  }
}
