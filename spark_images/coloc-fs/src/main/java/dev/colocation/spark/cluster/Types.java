package dev.colocation.spark.cluster;

import dev.colocation.spark.fs.Manifest;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VarcharType;

/** Parses the names of types in objects and manifests. */
public final class Types {
  private static final SQLConf DEFAULTS = new SQLConf();

  private Types() {}

  /**
   * The type of a column's values: varchar(n) and char(n) become string, also within other types. Their lengths are in the
   * metadata of columns, as in Spark.
   */
  public static DataType parse(String name) {
    return asStrings(declared(name));
  }

  /** Whether a type is or contains varchar(n) or char(n). */
  public static boolean hasLength(String name) {
    return !parse(name).equals(declared(name));
  }

  private static DataType asStrings(DataType type) {
    if (type instanceof CharType || type instanceof VarcharType) {
      return StringType$.MODULE$;
    }
    if (type instanceof ArrayType array) {
      return new ArrayType(asStrings(array.elementType()), array.containsNull());
    }
    if (type instanceof MapType map) {
      return new MapType(asStrings(map.keyType()), asStrings(map.valueType()), map.valueContainsNull());
    }
    return type instanceof StructType struct ? new StructType(Arrays.stream(struct.fields())
        .map(field -> new StructField(field.name(), asStrings(field.dataType()), field.nullable(), field.metadata()))
        .toArray(StructField[]::new)) : type;
  }

  /** The type as {@code CREATE TABLE} names it, independent of the session's {@code spark.sql.timestampType}. */
  public static DataType declared(String name) {
    try {
      return SQLConf.withExistingConf(DEFAULTS, () -> CatalystSqlParser$.MODULE$.parseDataType(name));
    } catch (Exception error) { // ParseException, a checked exception that Scala does not declare
      throw new ColocationException("InvalidSpec: type '" + name + "' is not a Spark SQL type", error).unchecked();
    }
  }

  /**
   * A value of a column as files hold it. Writers pad CHAR values, as Spark does for its own tables, so equal values have equal
   * bytes and fall into one bucket.
   *
   * @param value of any column; null = NULL
   * @throws RuntimeException Spark's EXCEED_LIMIT_LENGTH
   */
  public static Object padded(Object value, Manifest.Column column) {
    return TypeNames.charLength(column).isEmpty() ? value : CharVarcharUtils.stringLengthCheck(
        new Literal(value, DataTypes.StringType), declared(column.type())).eval(InternalRow.empty());
  }
}
