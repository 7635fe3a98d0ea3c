package dev.colocation.spark.fs;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * Between which keys the rows of a file lie: the values of the table's first sort columns in the file's first row, and in its last
 * one; see {@code keyRange} in {@code model/table_manifest.py}. Long texts are cut: then the first key is a lower bound, the last an
 * upper bound. Values are {@code Long}, {@code String} or null, which comes first.
 */
public final class KeyRange implements Serializable {
  /** Nothing is known. */
  public static final KeyRange NONE = new KeyRange(new Object[0]);

  private static final long serialVersionUID = 1L;

  private final Object[] values;

  private KeyRange(Object[] values) {
    this.values = values;
  }

  /** The range between two keys of as many columns. */
  public static KeyRange of(List<?> first, List<?> last) {
    List<Object> values = new ArrayList<>(first);
    values.addAll(last);
    return new KeyRange(values.toArray());
  }

  /** The range at this place of a manifest; {@link #NONE} for one that another release wrote in another form. */
  public static KeyRange read(JsonParser json) throws IOException {
    if (json.currentToken() != JsonToken.START_ARRAY) {
      json.skipChildren();
      return NONE;
    }
    List<Object> values = new ArrayList<>();
    boolean isKnown = true;
    for (JsonToken token = json.nextToken(); token != JsonToken.END_ARRAY; token = json.nextToken()) {
      switch (token) {
        case VALUE_STRING -> values.add(json.getText());
        case VALUE_NULL -> values.add(null);
        case VALUE_NUMBER_INT -> {
          isKnown &= json.getNumberType() != JsonParser.NumberType.BIG_INTEGER;
          values.add(isKnown ? json.getLongValue() : null);
        }
        default -> {
          isKnown = false;
          json.skipChildren();
        }
      }
    }
    return isKnown && values.size() % 2 == 0 ? new KeyRange(values.toArray()) : NONE;
  }

  /** Of how many sort columns values are known. */
  public int columns() {
    return values.length / 2;
  }

  /** The same, known of so many sort columns at most. */
  public KeyRange leading(int columns) {
    return columns >= columns() ? this : of(first().subList(0, columns), last().subList(0, columns));
  }

  /** The first key, then the last one. */
  public List<Object> values() {
    return Collections.unmodifiableList(Arrays.asList(values));
  }

  public List<Object> first() {
    return values().subList(0, columns());
  }

  public List<Object> last() {
    return values().subList(columns(), values.length);
  }

  /**
   * Whether each row of this file may stand before each row of the other, as ordered by so many sort columns.
   *
   * @return false when it is unknown
   */
  public boolean isBefore(KeyRange other, int byColumns) {
    int known = Math.min(byColumns, Math.min(columns(), other.columns()));
    for (int column = 0; column < known; column++) {
      Object last = values[columns() + column];
      Object first = other.values[column];
      int order = compare(last, first);
      if (order != 0) {
        return order < 0;
      }
    }
    return known > 0 && known == byColumns;
  }

  /** The order of two values of a column as Spark sorts: NULL first, texts by their bytes in UTF-8. */
  public static int compare(Object one, Object other) {
    if (one == null || other == null) {
      return Boolean.compare(one != null, other != null);
    }
    if (one instanceof Long number) {
      return other instanceof Long otherNumber ? Long.compare(number, otherNumber) : -1;
    }
    return other instanceof Long ? 1 : Arrays.compareUnsigned(bytes(one), bytes(other));
  }

  private static byte[] bytes(Object text) {
    return text.toString().getBytes(StandardCharsets.UTF_8);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof KeyRange that && Arrays.equals(values, that.values);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(values);
  }

  @Override
  public String toString() {
    return first() + " to " + last();
  }
}
