package dev.colocation.spark.plan;

import dev.colocation.spark.fs.KeyRange;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.ByteType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType$;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType$;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.ShortType$;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.TimestampNTZType$;
import org.apache.spark.sql.types.TimestampType$;

/** Makes the {@link KeyRange} of a file: whole numbers, days, microseconds and decimals without their point as they are, texts cut. */
public final class FileKeys {
  private static final Set<DataType> WHOLE_NUMBERS = Set.of(
      ByteType$.MODULE$, ShortType$.MODULE$, IntegerType$.MODULE$, LongType$.MODULE$, DateType$.MODULE$, TimestampType$.MODULE$,
      TimestampNTZType$.MODULE$);
  private static final int MOST_COLUMNS = 2;
  private static final int MOST_CHARACTERS = 32;

  private final List<DataType> types;
  private final List<Object> first = new ArrayList<>();
  private final List<Object> last = new ArrayList<>();

  private FileKeys(List<DataType> types) {
    this.types = types;
  }

  /**
   * The range of a file.
   *
   * @param first the sort columns of its first row
   * @param last those of its last row
   */
  public static KeyRange between(InternalRow first, InternalRow last, List<DataType> types) {
    FileKeys keys = new FileKeys(types.subList(0, Math.min(types.size(), MOST_COLUMNS)));
    int column = 0;
    while (column < keys.types.size() && keys.add(first, last, column)) {
      column++;
    }
    return KeyRange.of(keys.first, keys.last);
  }

  /** Whether keys have columns of this type. */
  public static boolean isKnown(DataType type) {
    return WHOLE_NUMBERS.contains(type) || type == StringType$.MODULE$
        || type instanceof DecimalType decimal && decimal.precision() <= Decimal.MAX_LONG_DIGITS();
  }

  /** A value of Spark as keys have it, of a type that {@link #isKnown}: a {@code Long}, a {@code String}, or null. */
  public static Object key(Object value) {
    if (value instanceof Decimal decimal) {
      return decimal.toUnscaledLong();
    }
    return value instanceof Number number ? (Object) number.longValue() : value == null ? null : value.toString();
  }

  /** Adds a column's values; whether it did. A text that was cut is a bound by itself, whatever follows it. */
  private boolean add(InternalRow begin, InternalRow end, int column) {
    DataType type = types.get(column);
    if (!isKnown(type)) {
      return false;
    }
    Object low = key(begin.get(column, type));
    Object high = key(end.get(column, type));
    if (type == StringType$.MODULE$) {
      return addTexts((String) low, (String) high);
    }
    first.add(low);
    last.add(high);
    return true;
  }

  private boolean addTexts(String begin, String end) {
    if (hasUnknown(begin) || hasUnknown(end)) {
      return false;
    }
    int[] low = begin == null ? new int[0] : begin.codePoints().toArray();
    int[] high = end == null ? new int[0] : end.codePoints().toArray();
    int[] bound = high.length <= MOST_CHARACTERS ? high : above(high);
    if (bound.length == 0 && high.length > 0) {
      return false;
    }
    first.add(begin == null ? null : new String(low, 0, Math.min(low.length, MOST_CHARACTERS)));
    last.add(end == null ? null : new String(bound, 0, bound.length));
    return true;
  }

  /** Bytes that are no UTF-8 have become this character, which has another order. */
  private static boolean hasUnknown(String value) {
    return value != null && value.indexOf('\uFFFD') >= 0;
  }

  /** The least text that is greater than all that begin as this one does; empty when there is none. */
  private static int[] above(int[] text) {
    int length = MOST_CHARACTERS;
    while (length > 0 && text[length - 1] == Character.MAX_CODE_POINT) {
      length--;
    }
    int[] bound = Arrays.copyOf(text, length);
    if (length > 0) {
      int next = bound[length - 1] + 1;
      bound[length - 1] = next == Character.MIN_SURROGATE ? Character.MAX_SURROGATE + 1 : next;
    }
    return bound;
  }
}
