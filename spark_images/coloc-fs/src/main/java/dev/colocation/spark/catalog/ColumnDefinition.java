package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.stream.Stream;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

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
    requireNothingWithin(type);
    ObjectNode column =
        JSON.createObjectNode().put("name", name).put("type", typeName()).put("nullable", nullable);
    return comment == null || comment.isEmpty() ? column : column.put("comment", comment);
  }

  /** Spark's short form says names of fields without back quotes, whatever is in them. */
  private String typeName() {
    String brief = type.catalogString();
    try {
      return Types.declared(brief).catalogString().equals(brief) ? brief : type.sql();
    } catch (Exception unreadable) {
      return type.sql();
    }
  }

  private void requireFileTypes(DataType part) {
    if (!(part instanceof ArrayType || part instanceof MapType || part instanceof StructType)
        && !TypeNames.isAllowed(part.catalogString())) {
      throw TableDefinition.refused("column " + name + " has type '" + type.catalogString() + "'; allowed: "
          + TypeNames.ALLOWED + "; use one of these");
    }
    parts(part).forEach(this::requireFileTypes);
  }

  /** The spec's types say neither. */
  private void requireNothingWithin(DataType part) {
    if (part instanceof StructType struct) {
      for (StructField field : struct.fields()) {
        if (field.getComment().isDefined() || !field.nullable()) {
          throw TableDefinition.refused("field " + field.name() + " of column " + name + " has a COMMENT or is NOT NULL; only "
              + "whole columns can: leave it out, or CAST to " + Types.declared(typeName()).sql());
        }
      }
    }
    parts(part).forEach(this::requireNothingWithin);
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
