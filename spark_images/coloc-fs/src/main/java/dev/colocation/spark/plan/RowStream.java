package dev.colocation.spark.plan;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.Iterator;

/** The rows of one file, whether its reader gives them in batches or one by one. */
final class RowStream {
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
