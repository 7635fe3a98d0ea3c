package dev.colocation.spark.plan;

import java.util.Comparator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;

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
}
