package dev.colocation.spark.write;

import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.cluster.TypeNames;
import dev.colocation.spark.cluster.Types;
import dev.colocation.spark.cluster.WriteException.SchemaMismatch;
import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.plan.FileKeys;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BaseOrdering;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.RowOrdering;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The places of a table's columns in a query's rows. Matched by name: Spark has already matched a batch's rows, by name or by
 * position, and cast them; a stream's rows are not cast.
 *
 * @param inFiles columns in the files, in the table's order
 * @param partitions partition columns, in the order of the folders
 * @param bucketKeys the columns that a row's bucket is computed from
 * @param sortKeys the columns by which the rows of a file are sorted
 */
record RowFields(List<Field> inFiles, List<Field> partitions, List<Field> bucketKeys, List<Field> sortKeys)
    implements Serializable {
  /** Types of Spark SQL that Parquet files cannot have. */
  private static final Set<String> UNSTORABLE = Set.of("interval", "void");

  /**
   * A column: its name in messages, in files and folders, its place in a row.
   *
   * @param padded length of a CHAR column's values in characters; 0 = no CHAR column
   */
  record Field(String name, String storedName, DataType type, boolean nullable, int ordinal, int padded)
      implements Serializable {}

  RowFields {
    inFiles = List.copyOf(inFiles);
    partitions = List.copyOf(partitions);
    bucketKeys = List.copyOf(bucketKeys);
    sortKeys = List.copyOf(sortKeys);
  }

  /**
   * Matches rows with a table.
   *
   * @throws SchemaMismatch with all differences
   */
  static RowFields match(String table, TableLayout layout, StructType rows) {
    List<String> problems = new ArrayList<>();
    Map<String, Integer> places = new HashMap<>();
    for (int place = 0; place < rows.length(); place++) {
      if (places.put(rows.fields()[place].name().toLowerCase(Locale.ROOT), place) != null) {
        problems.add("column " + rows.fields()[place].name() + " is given twice");
      }
    }
    List<Field> inFiles = new ArrayList<>();
    Map<String, Field> partitions = new HashMap<>();
    for (Manifest.Column column : layout.columns()) {
      DataType type = Types.parse(column.type());
      Integer place = places.remove(column.name().toLowerCase(Locale.ROOT));
      String problem = problem(column, type, place == null ? null : rows.fields()[place]);
      if (!problem.isEmpty()) {
        problems.add("column " + column.name() + problem);
      } else if (layout.isPartition(column)) {
        partitions.put(column.name().toLowerCase(Locale.ROOT), field(column, type, place));
      } else {
        inFiles.add(field(column, type, place));
      }
    }
    places.values().stream().sorted().forEach(place -> problems.add("column " + rows.fields()[place].name() + " ("
        + rows.fields()[place].dataType().catalogString() + ") is not in the table"));
    if (!problems.isEmpty()) {
      throw new SchemaMismatch("rows do not fit table " + table + ": " + String.join("; ", problems) + ". Expected: "
          + layout.columns().stream().map(column -> column.name() + " " + column.type()).collect(Collectors.joining(", ")));
    }
    List<Field> folders = layout.partitionedBy().stream()
        .map(name -> partitions.get(name.toLowerCase(Locale.ROOT))).toList();
    return new RowFields(inFiles, folders, named(layout.bucketedBy(), inFiles), named(layout.sortedInFiles(), inFiles));
  }

  private static List<Field> named(List<String> names, List<Field> fields) {
    return names.stream()
        .map(name -> fields.stream().filter(field -> field.name().equalsIgnoreCase(name)).findFirst().orElseThrow()).toList();
  }

  private static Field field(Manifest.Column column, DataType type, int place) {
    return new Field(column.name(), column.storedName(), type, column.nullable(), place, TypeNames.charLength(column).orElse(0));
  }

  private static String problem(Manifest.Column column, DataType type, StructField given) {
    if (UNSTORABLE.contains(type.catalogString())) {
      return " is " + type.catalogString() + ", which Parquet files cannot hold: remove it";
    }
    if (given == null) {
      return " (" + column.type() + ") is missing";
    }
    String actual = given.dataType().catalogString();
    return actual.equalsIgnoreCase(type.catalogString()) ? ""
        : " is " + actual + ", expected " + type.catalogString() + ": cast it";
  }

  /** The schema of files: every column may be NULL there, whatever the nullability of this query's rows or of the table. */
  StructType fileSchema() {
    StructType schema = new StructType();
    for (Field field : inFiles) {
      schema = schema.add(field.storedName(), field.type(), true);
    }
    return schema;
  }

  /**
   * Whether the rows of a file come in the order that its manifest promises. Readers merge files without sorting them, so
   * joins would silently lose rows in another order.
   */
  static final class RowOrder {
    /** Two projections in turn: each keeps its last result until its next call, so two rows are compared without a copy. */
    private final List<Function1<InternalRow, InternalRow>> keysOf;
    private final BaseOrdering order;
    private final List<DataType> types;
    private InternalRow first;
    private InternalRow last;
    private int turn;

    RowOrder(List<RowFields.Field> sortKeys) {
      keysOf = List.of(projection(sortKeys), projection(sortKeys));
      types = sortKeys.stream().map(RowFields.Field::type).toList();
      order = RowOrdering.createNaturalAscendingOrdering(sequence(types));
    }

    private static Function1<InternalRow, InternalRow> projection(List<RowFields.Field> fields) {
      List<Expression> columns = fields.stream()
          .<Expression>map(field -> new BoundReference(field.ordinal(), field.type(), true)).toList();
      return UnsafeProjection.create(sequence(columns));
    }

    private static <T> Seq<T> sequence(List<T> list) {
      return CollectionConverters.asScala(list).toSeq();
    }

    /** Whether the row may follow the previous one: ascending, NULL first, as Spark sorts. */
    boolean takes(InternalRow row) {
      InternalRow key = keysOf.get(turn).apply(row);
      if (first == null) {
        first = key.copy();
      }
      boolean isInOrder = last == null || order.compare(last, key) <= 0;
      last = key;
      turn = 1 - turn;
      return isInOrder;
    }

    /** Whether all rows that it took come before this one by their keys alone, so that the rest may be another file. */
    boolean endsBefore(InternalRow row) {
      InternalRow key = keysOf.get(turn).apply(row);
      return keys().isBefore(FileKeys.between(key, key, types), types.size());
    }

    /** Between which keys the rows lie that it took; there was at least one. */
    KeyRange keys() {
      return FileKeys.between(first, last, types);
    }
  }
}
