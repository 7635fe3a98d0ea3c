package dev.colocation.spark.catalog;

import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.VarcharType;

/** Types as objects and manifests name them. */
public final class Types {
  private Types() {}

  /**
   * The type as queries see it. varchar(n) and char(n) are read as string: Spark would pad char(n) in each query, which hides
   * the bucket key.
   */
  public static DataType parse(String name) {
    try {
      DataType type = CatalystSqlParser$.MODULE$.parseDataType(name);
      return type instanceof CharType || type instanceof VarcharType ? StringType$.MODULE$ : type;
    } catch (Exception error) { // ParseException, which Scala throws without saying so
      throw new ColocationException("InvalidSpec: type '" + name + "' is not a Spark SQL type", error).unchecked();
    }
  }
}
