package dev.colocation.spark.plan;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.ByteType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType$;
import org.apache.spark.sql.types.IntegerType$;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.NullType$;
import org.apache.spark.sql.types.ShortType$;
import org.apache.spark.sql.types.TimestampNTZType$;
import org.apache.spark.sql.types.TimestampType$;

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
