package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.TypeNames;
import dev.colocation.spark.cluster.Types;
import java.util.Arrays;
import java.util.stream.Stream;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.UserDefinedType;

/**
 * A column of {@code CREATE TABLE} or {@code ADD COLUMN}.
 *
 * @param comment null = none
 * @param isPlain its values are those that rows bring along
 */
record ColumnDefinition(String name, DataType type, boolean nullable, String comment, boolean isPlain) {
  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * As a spec has it.
   *
   * @throws ColocationException (unchecked) for what no column can be
   */
  ObjectNode toSpec() {
    if (!isPlain) {
      throw TableDefinition.refused("column " + name + " has a DEFAULT, GENERATED or IDENTITY value; columns have no values but "
          + "those of their rows: leave it out, and write the value with each row");
    }
    requireFileTypes(type);
    requireNullsWithin(type);
    ObjectNode column =
        JSON.createObjectNode().put("name", name).put("type", typeName()).put("nullable", nullable);
    return comment == null || comment.isEmpty() ? column : column.put("comment", comment);
  }

  /** Spark's short form says names of fields without back quotes, whatever is in them, and no comments of fields. */
  private String typeName() {
    String brief = type.catalogString();
    if (hasComments(type)) {
      return type.sql();
    }
    try {
      return Types.declared(brief).catalogString().equals(brief) ? brief : type.sql();
    } catch (Exception unreadable) {
      return type.sql();
    }
  }

  private static boolean hasComments(DataType part) {
    return part instanceof StructType struct && Arrays.stream(struct.fields()).anyMatch(field -> field.getComment().isDefined())
        || parts(part).anyMatch(ColumnDefinition::hasComments);
  }

  private void requireFileTypes(DataType part) {
    if (part instanceof UserDefinedType<?> own) {
      throw TableDefinition.refused("column " + name + " has the user-defined type " + nameOf(own) + ", which files would hold as "
          + "a plain " + own.sqlType().sql() + "; give its parts as columns of Spark's types, and make the values again in queries. "
          + "A vector is an array: vector_to_array(" + name + "), array_to_vector(" + name + ")");
    }
    if (!(part instanceof ArrayType || part instanceof MapType || part instanceof StructType)
        && !TypeNames.isAllowed(part.catalogString())) {
      throw TableDefinition.refused("column " + name + " has type '" + type.catalogString() + "'; allowed: "
          + TypeNames.ALLOWED + "; use one of these");
    }
    parts(part).forEach(this::requireFileTypes);
  }

  /** Of a type that Python defines, the class there. */
  private static String nameOf(UserDefinedType<?> own) {
    return own.pyUDT() == null ? own.getClass().getName() : own.pyUDT();
  }

  /** The spec's types do not say it. */
  private void requireNullsWithin(DataType part) {
    if (part instanceof StructType struct) {
      for (StructField field : struct.fields()) {
        if (!field.nullable()) {
          throw TableDefinition.refused("field " + field.name() + " of column " + name + " is NOT NULL; only whole columns can: leave "
              + "it out, or CAST to " + type.catalogString());
        }
      }
    }
    parts(part).forEach(this::requireNullsWithin);
  }

  private static Stream<DataType> parts(DataType type) {
    if (type instanceof ArrayType array) {
      return Stream.of(array.elementType());
    }
    if (type instanceof MapType map) {
      return Stream.of(map.keyType(), map.valueType());
    }
    return type instanceof StructType struct ? Arrays.stream(struct.fields()).map(StructField::dataType) : Stream.empty();
  }
}
