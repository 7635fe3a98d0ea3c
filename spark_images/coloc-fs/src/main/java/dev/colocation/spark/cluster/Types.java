package dev.colocation.spark.cluster;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VarcharType;

/** Types as objects and manifests name them. */
public final class Types {
  private static final SQLConf DEFAULTS = new SQLConf();

  private Types() {}

  /**
   * The type of a column's values: varchar(n) and char(n) are string, within other types, too. What their lengths mean for queries
   * is said by the metadata of columns, as Spark has it.
   */
  public static DataType parse(String name) {
    return asStrings(declared(name));
  }

  /** Whether it is or holds varchar(n) or char(n). */
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

  /** The type as {@code CREATE TABLE} names it, whatever a session's {@code spark.sql.timestampType} makes of "timestamp". */
  public static DataType declared(String name) {
    try {
      return SQLConf.withExistingConf(DEFAULTS, () -> CatalystSqlParser$.MODULE$.parseDataType(name));
    } catch (Exception error) { // ParseException, which Scala throws without saying so
      throw new ColocationException("InvalidSpec: type '" + name + "' is not a Spark SQL type", error).unchecked();
    }
  }
}
