package dev.colocation.spark.write;

import dev.colocation.spark.write.RowFields.Field;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** The first rows of a file, kept until they show whether the values of its columns repeat. */
final class FirstRows {
  private static final int MOST_ROWS = 1024;
  private static final long MOST_BYTES = 256 << 10;
  /** Fewer rows show nothing. */
  private static final int LEAST_ROWS = 256;
  /** One repeated value in so many: beyond that, a page of 20,000 rows has too many values for a dictionary to save anything. */
  private static final int ROWS_PER_REPETITION = 64;

  private final List<InternalRow> rows = new ArrayList<>();
  private long bytes;

  /** Keeps a copy of a row; returns whether more rows are needed. */
  boolean add(InternalRow row) {
    rows.add(row.copy());
    bytes += row instanceof UnsafeRow unsafe ? unsafe.getSizeInBytes() : 0;
    return rows.size() < MOST_ROWS && bytes < MOST_BYTES;
  }

  List<InternalRow> rows() {
    return rows;
  }

  /** Bytes in memory. */
  long bytes() {
    return bytes;
  }

  /** Whether almost all rows have values of their own in a column. */
  boolean isDistinct(int place, Field column) {
    Set<Object> values = new HashSet<>();
    int present = 0;
    for (InternalRow row : rows) {
      if (!row.isNullAt(place)) {
        present++;
        Object value = row.get(place, column.type());
        values.add(value instanceof byte[] binary ? ByteBuffer.wrap(binary) : value);
      }
    }
    return present >= LEAST_ROWS && (present - values.size()) * ROWS_PER_REPETITION <= present;
  }
}
