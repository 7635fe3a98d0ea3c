package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Types;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.write.PartitionText;
import java.math.BigDecimal;
import java.util.Locale;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import scala.Option;

/**
 * A partition column's value in a call of a procedure: a text that Spark casts to the column's type. It chooses the partitions to
 * drop, so a text that is not exactly one value is refused.
 */
final class PartitionValue {
  /** Spark also casts a year or a month to its first day and a time to today, and ignores text after a day. */
  private static final Pattern DAY = Pattern.compile("[+-]?\\d{4,}-\\d{1,2}-\\d{1,2}");

  private PartitionValue() {}

  /**
   * The value as in manifests; null for NULL and for empty text, which are the same there.
   *
   * @param given null = NULL
   * @param zone of a time without one, e.g. {@code America/New_York}
   * @throws ColocationException (unchecked) when it is not a value of the column
   */
  static String text(Manifest.Column column, String given, String zone) {
    DataType type = Types.parse(column.type());
    if (given == null || given.isEmpty()) {
      return null;
    }
    Object value;
    try {
      value = Cast$.MODULE$.apply(Literal$.MODULE$.apply(given), type, Option.apply(zone), true).eval(InternalRow.empty());
    } catch (RuntimeException error) {
      throw refused(column, given, type, error);
    }
    if (value == null || !isWhole(given.strip(), type, value)) {
      throw refused(column, given, type, null);
    }
    return PartitionText.of(Types.padded(value, column), type);
  }

  /** Whether the value keeps everything that is in the text. */
  private static boolean isWhole(String given, DataType type, Object value) {
    if (type instanceof DecimalType) {
      return new BigDecimal(given).compareTo(((Decimal) value).toJavaBigDecimal()) == 0;
    }
    if (type instanceof DateType) {
      return DAY.matcher(given).matches();
    }
    return !isTime(type) || DAY.matcher(given).lookingAt();
  }

  private static boolean isTime(DataType type) {
    return type instanceof TimestampType || type instanceof TimestampNTZType;
  }

  private static RuntimeException refused(Manifest.Column column, String given, DataType type, RuntimeException cause) {
    return new ColocationException("partition: " + column.name() + "='" + given + "' is no " + column.type().toLowerCase(Locale.ROOT)
        + "; allowed: " + allowed(type) + ", or NULL", cause).unchecked();
  }

  private static String allowed(DataType type) {
    if (type instanceof DateType) {
      return "a date of year, month and day, such as 2024-01-31";
    }
    if (type instanceof TimestampType) {
      return "a date and time, such as 2024-01-31 23:00:00Z, without Z of the session's time zone";
    }
    return isTime(type) ? "a date and time, such as 2024-01-31 23:00:00" : "what CAST(… AS " + type.sql() + ") takes without loss";
  }
}
