package dev.colocation.spark.cluster;

import dev.colocation.spark.fs.Manifest;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.types.DataTypes;

/**
 * Columns of type CHAR(n), whose values have n characters in files: writers pad them, as Spark does for its own tables. So equal
 * values have equal bytes, and lie in one bucket, wherever they came from. Columns within arrays, maps and structs do not count.
 */
public final class CharColumns {
  private CharColumns() {}

  /** n of a CHAR(n) column; empty for other types. */
  public static OptionalInt length(Manifest.Column column) {
    return TypeNames.charLength(column.type());
  }

  /**
   * A value of the column as files hold it.
   *
   * @param value of any column; null = NULL
   * @throws RuntimeException Spark's EXCEED_LIMIT_LENGTH
   */
  public static Object padded(Object value, Manifest.Column column) {
    return length(column).isEmpty() ? value : CharVarcharUtils.stringLengthCheck(
        new Literal(value, DataTypes.StringType), Types.declared(column.type())).eval(InternalRow.empty());
  }

  /** n of each CHAR(n) column, by its name in files. */
  public static Map<String, Integer> lengths(List<Manifest.Column> columns) {
    Map<String, Integer> lengths = new TreeMap<>();
    columns.forEach(column -> length(column).ifPresent(length -> lengths.put(column.storedName(), length)));
    return lengths;
  }
}
