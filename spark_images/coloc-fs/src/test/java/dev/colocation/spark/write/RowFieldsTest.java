package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.cluster.WriteException.SchemaMismatch;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.write.RowFields.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Where a row has what files, folders, buckets and their order need, whatever the order and the case of its columns. */
class RowFieldsTest {
  private static final TableLayout LAYOUT = new TableLayout(
      List.of(column("Day", "string", ""), column("id", "bigint", "old_id"), column("note", "string", ""), column("region", "int", ""),
          column("at", "timestamp", "")),
      List.of("ID"), List.of("region", "day"), List.of("day", "AT", "id"));
  private static final StructType ROWS = new StructType().add("day", DataTypes.StringType).add("id", DataTypes.LongType)
      .add("note", DataTypes.StringType).add("region", DataTypes.IntegerType).add("at", DataTypes.TimestampType);

  private static Manifest.Column column(String name, String type, String storedAs) {
    return new Manifest.Column(name, type, true, storedAs.isEmpty() ? name : storedAs);
  }

  private static List<String> names(StructType rows, List<Field> fields) {
    return fields.stream().map(field -> rows.fieldNames()[field.ordinal()].toLowerCase(Locale.ROOT)).toList();
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5})
  void columnsAreFoundByName(int seed) {
    List<StructField> shuffled = new ArrayList<>(Arrays.asList(ROWS.fields()));
    Collections.shuffle(shuffled, new Random(seed));
    StructType rows = new StructType(shuffled.stream().map(field -> seed % 2 == 0 ? field
        : new StructField(field.name().toUpperCase(Locale.ROOT), field.dataType(), true, field.metadata())).toArray(StructField[]::new));
    RowFields found = RowFields.match("shop.orders", LAYOUT, rows);
    assertEquals(List.of("id", "note", "at"), names(rows, found.inFiles()));
    assertEquals(List.of("old_id", "note", "at"), List.of(found.fileSchema().fieldNames()));
    assertEquals(List.of("region", "day"), names(rows, found.partitions()));
    assertEquals(List.of("id"), names(rows, found.bucketKeys()));
    assertEquals(List.of("at", "id"), names(rows, found.sortKeys()));
  }

  private static void assertRefused(String problem, StructType rows) {
    SchemaMismatch error = assertThrows(SchemaMismatch.class, () -> RowFields.match("shop.orders", LAYOUT, rows));
    assertEquals("SchemaMismatch: rows do not fit table shop.orders: " + problem
        + ". Expected: Day string, id bigint, note string, region int, at timestamp", error.getMessage());
  }

  private static StructType without(String... names) {
    return new StructType(Arrays.stream(ROWS.fields()).filter(field -> !List.of(names).contains(field.name())).toArray(StructField[]::new));
  }

  @Test
  void rowsThatDoNotFitAreRefusedWithAllDifferences() {
    assertRefused("column ID is given twice", ROWS.add("ID", DataTypes.LongType));
    assertRefused("column id (bigint) is missing", without("id"));
    assertRefused("column region is string, expected int: cast it; column a (int) is not in the table; column b (void) is not in the table",
        without("region").add("a", DataTypes.IntegerType).add("region", DataTypes.StringType).add("b", DataTypes.NullType));
  }
}
