package dev.colocation.spark.write;

import dev.colocation.spark.plan.FractionKeys;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.TimestampType;
import scala.Option;

/** Texts of partition columns' values in manifests and folders; the same rules as {@code colocation/spark/partition_path.py}. */
public final class PartitionText {
  private static final String NULL = "__HIVE_DEFAULT_PARTITION__";
  private static final String ESCAPED = "\"#%'*/:=?\\\u007f{[]^";
  private static final int FIRST_PRINTABLE = 0x20;
  /** The longest name of a file on Linux file systems. */
  private static final int MAX_NAME_BYTES = 255;

  private static final int SHOWN_CHARACTERS = 60;

  private PartitionText() {}

  /**
   * Spark's string form; null for NULL and for empty text, which folders cannot tell apart.
   *
   * <p>A timestamp is in UTC: Spark reads a text without a zone in the reader's zone, which may differ from the writer's.
   */
  public static String of(Object value, DataType type) {
    if (value == null) {
      return null;
    }
    boolean isInstant = type instanceof TimestampType;
    DataType shownType = isInstant ? DataTypes.TimestampNTZType : type;
    Object text = Cast$.MODULE$.apply(new Literal(value, shownType), DataTypes.StringType, Option.apply("UTC"), false)
        .eval(InternalRow.empty());
    return text.toString().isEmpty() ? null : isInstant ? text + "Z" : text.toString();
  }

  /** Whether values that are equal have two texts: 0.0 and -0.0 are two partitions. */
  public static boolean hasTwoZeros(DataType type) {
    return FractionKeys.isFraction(type);
  }

  /** {@code a=1/b=__HIVE_DEFAULT_PARTITION__}; empty without partition columns. */
  static String folder(Map<String, String> partition) {
    return partition.entrySet().stream().map(value -> folder(value.getKey(), value.getValue())).collect(Collectors.joining("/"));
  }

  private static String folder(String column, String value) {
    return escape(column) + "=" + (value == null ? NULL : escape(value));
  }

  /** Why a value cannot have a folder: it would be NULL's, hold a NUL, or be too long; empty when it can. */
  static String refusal(String column, String value) {
    if (NULL.equals(value)) {
      return "partition column " + column + " holds the text " + NULL + ", by which folders mean NULL; allowed: any other. "
          + "Replace it, e.g. by NULL: NULLIF(" + column + ", '" + NULL + "')";
    }
    if (value != null && value.indexOf(0) >= 0) {
      return "partition column " + column + " holds a text with the character NUL, which no folder's name can hold; allowed: any "
          + "other. Replace it, e.g. by nothing: replace(" + column + ", char(0), '')";
    }
    String name = folder(column, value);
    int bytes = name.getBytes(StandardCharsets.UTF_8).length;
    String shown = name.substring(0, Math.min(name.length(), SHOWN_CHARACTERS));
    return bytes <= MAX_NAME_BYTES ? "" : "partition column " + column + " holds a text whose folder has a name of " + bytes
        + " bytes (" + shown + "…); allowed: " + MAX_NAME_BYTES
        + ". Partition by a shorter text";
  }

  /** Percent-escapes what Spark escapes in a folder's name. */
  static String escape(String text) {
    StringBuilder escaped = new StringBuilder();
    for (char character : text.toCharArray()) {
      if (character < FIRST_PRINTABLE || ESCAPED.indexOf(character) >= 0) {
        escaped.append(String.format(Locale.ROOT, "%%%02X", (int) character));
      } else {
        escaped.append(character);
      }
    }
    return escaped.toString();
  }
}
