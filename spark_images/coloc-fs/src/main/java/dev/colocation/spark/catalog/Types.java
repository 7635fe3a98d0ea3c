package dev.colocation.spark.catalog;

import java.util.Arrays;
import java.util.function.UnaryOperator;
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
   * The type as queries see it. varchar(n) and char(n) are read as string, within other types, too: Spark would pad char(n) in
   * each query, which hides the bucket key.
   */
  public static DataType parse(String name) {
    return withTexts(declared(name), text -> StringType$.MODULE$);
  }

  /** Whether it is or holds varchar(n) or char(n). */
  public static boolean hasLength(String name) {
    return !parse(name).equals(declared(name));
  }

  /** The type as statements declare and change columns: a text has its length, which Spark checks, but is never padded. */
  public static DataType written(String name) {
    return withTexts(declared(name), text -> text instanceof CharType fixed ? declared("varchar(" + fixed.length() + ")") : text);
  }

  /** The type with others in the place of each varchar(n) and char(n). */
  private static DataType withTexts(DataType type, UnaryOperator<DataType> change) {
    if (type instanceof CharType || type instanceof VarcharType) {
      return change.apply(type);
    }
    if (type instanceof ArrayType array) {
      return new ArrayType(withTexts(array.elementType(), change), array.containsNull());
    }
    if (type instanceof MapType map) {
      return new MapType(withTexts(map.keyType(), change), withTexts(map.valueType(), change), map.valueContainsNull());
    }
    return type instanceof StructType struct ? new StructType(Arrays.stream(struct.fields())
        .map(field -> new StructField(field.name(), withTexts(field.dataType(), change), field.nullable(), field.metadata()))
        .toArray(StructField[]::new)) : type;
  }

  /** The type as {@code CREATE TABLE} names it, whatever a session's {@code spark.sql.timestampType} makes of "timestamp". */
  static DataType declared(String name) {
    try {
      return SQLConf.withExistingConf(DEFAULTS, () -> CatalystSqlParser$.MODULE$.parseDataType(name));
    } catch (Exception error) { // ParseException, which Scala throws without saying so
      throw new ColocationException("InvalidSpec: type '" + name + "' is not a Spark SQL type", error).unchecked();
    }
  }
}
