package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.colocation.spark.write.RowFields.Field;
import java.util.List;
import java.util.function.LongFunction;
import org.apache.parquet.column.Encoding;
import org.apache.parquet.column.EncodingStats;
import org.apache.parquet.hadoop.metadata.ColumnPath;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.BinaryType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.LongType$;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Which columns are written without a dictionary: what earlier files show, and what a file's first rows show. */
class DictionariesTest {
  private static final List<Field> COLUMNS = List.of(column("kept", 0, LongType$.MODULE$), column("given up", 1, LongType$.MODULE$));
  private static final EncodingStats GIVEN_UP = new EncodingStats.Builder().addDataEncoding(Encoding.PLAIN, 5).build();
  private static final EncodingStats USED = new EncodingStats.Builder()
      .addDictEncoding(Encoding.PLAIN).addDataEncoding(Encoding.RLE_DICTIONARY, 2).addDataEncoding(Encoding.PLAIN, 5).build();

  private final Dictionaries known = new Dictionaries();

  private static Field column(String name, int place, DataType type) {
    return new Field(name, name, type, true, place, 0);
  }

  private void learn(int values, EncodingStats encodings) {
    known.learn(ColumnPath.get("given up"), values, encodings);
  }

  @BeforeEach
  void aFileHasBeenWritten() {
    known.learn(ColumnPath.get("kept"), Dictionaries.LEAST_VALUES, USED);
    learn(Dictionaries.LEAST_VALUES, GIVEN_UP);
  }

  @Test
  void aColumnIsGivenUpWhereParquetGaveItUp() {
    assertArrayEquals(new int[] {1}, known.givenUp(COLUMNS));
  }

  @Test
  void aDictionaryThatPaysIsUsedAgain() {
    learn(Dictionaries.LEAST_VALUES, USED);
    assertArrayEquals(new int[0], known.givenUp(COLUMNS));
  }

  @Test
  void smallFilesAndElementsOfColumnsTeachNothing() {
    learn(Dictionaries.LEAST_VALUES - 1, USED);
    learn(Dictionaries.LEAST_VALUES, null);
    known.learn(ColumnPath.get("kept"), Dictionaries.LEAST_VALUES - 1, GIVEN_UP);
    known.learn(ColumnPath.get("kept", "list", "element"), Dictionaries.LEAST_VALUES, GIVEN_UP);
    assertArrayEquals(new int[] {1}, known.givenUp(COLUMNS));
  }

  @Test
  void firstRowsAreDistinctWhereOneIn64RepeatsAtMost() {
    assertEquals(List.of(true, false), List.of(isDistinct(1024, row -> row), isDistinct(1024, row -> row / 2)));
    assertEquals(List.of(true, false), List.of(isDistinct(1024, row -> Math.max(row, 16)), isDistinct(1024, row -> Math.max(row, 17))));
  }

  @Test
  void fewValuesShowNothing() {
    assertEquals(List.of(true, false), List.of(isDistinct(256, row -> row), isDistinct(255, row -> row)));
    assertEquals(List.of(true, false),
        List.of(isDistinct(512, row -> row < 256 ? null : row), isDistinct(512, row -> row < 257 ? null : row)));
  }

  @Test
  void binariesAreComparedByTheirBytes() {
    assertEquals(List.of(true, false), List.of(
        isDistinct(1024, BinaryType$.MODULE$, row -> new byte[] {(byte) row, (byte) (row >> 8)}),
        isDistinct(1024, BinaryType$.MODULE$, row -> new byte[] {(byte) row})));
  }

  /** Spark gives every row in the same object. */
  @Test
  void firstRowsAreKeptAsTheyCame() {
    FirstRows first = new FirstRows();
    GenericInternalRow row = new GenericInternalRow(1);
    for (long key : List.of(7L, 8L)) {
      row.update(0, key);
      first.add(row);
    }
    assertEquals(List.of(7L, 8L), first.rows().stream().map(kept -> kept.getLong(0)).toList());
  }

  /** Rows may be wide: what is kept is bounded in bytes, too. */
  @Test
  void fewWideRowsAreKept() {
    FirstRows first = new FirstRows();
    UnsafeRow row = new UnsafeRow(1);
    row.pointTo(new byte[128 << 10], 128 << 10);
    assertEquals(List.of(true, false), List.of(first.add(row), first.add(row)));
    assertEquals(256 << 10, first.bytes());
  }

  private static boolean isDistinct(int rows, LongFunction<Object> value) {
    return isDistinct(rows, LongType$.MODULE$, value);
  }

  private static boolean isDistinct(int rows, DataType type, LongFunction<Object> value) {
    FirstRows first = new FirstRows();
    for (long row = 0; row < rows; row++) {
      assertEquals(row < 1023, first.add(new GenericInternalRow(new Object[] {value.apply(row)})));
    }
    return first.isDistinct(0, column("c", 0, type));
  }
}
