package dev.colocation.spark.catalog;

import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.VarcharType;

/** Types as objects and manifests name them. */
public final class Types {
  private static final SQLConf DEFAULTS = new SQLConf();

  private Types() {}

  /**
   * The type as queries see it. varchar(n) and char(n) are read as string: Spark would pad char(n) in each query, which hides
   * the bucket key.
   */
  public static DataType parse(String name) {
    return hasLength(name) ? StringType$.MODULE$ : declared(name);
  }

  /** Whether it is varchar(n) or char(n). */
  public static boolean hasLength(String name) {
    DataType type = declared(name);
    return type instanceof CharType || type instanceof VarcharType;
  }

  /** The type as statements declare and change columns: a text has its length, but is never padded. */
  public static DataType written(String name) {
    DataType type = declared(name);
    return type instanceof CharType text ? declared("varchar(" + text.length() + ")") : type;
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
