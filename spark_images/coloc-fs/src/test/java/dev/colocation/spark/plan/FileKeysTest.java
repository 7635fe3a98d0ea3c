package dev.colocation.spark.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.plan.FileChains;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.RepetitionInfo;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What is recorded of files' keys never lets files overlap that are read one after the other. */
class FileKeysTest {
  private static final List<DataType> TYPES = List.of(
      DataTypes.LongType, DataTypes.StringType, DataTypes.ShortType, DataTypes.DateType, DataTypes.createDecimalType(9, 2),
      DataTypes.createDecimalType(30, 2), DataTypes.DoubleType, DataTypes.TimestampType);
  private static final String LONG = "x".repeat(31);
  private static final List<String> TEXTS = List.of(
      "", "a", "é", "z", LONG, LONG + "y", LONG + "yy", LONG + "yz", LONG + "\uD7FF", LONG + "\uD7FFa", LONG + "\uE000", LONG + "😀",
      "\uDBFF\uDFFF".repeat(33), "\uDBFF\uDFFF".repeat(32), "\uFFFD");

  private record Sorted(List<InternalRow> rows, KeyRange keys) {}

  @RepeatedTest(300)
  void chainsAndGroupsAreInOrder(RepetitionInfo repetition) {
    Random random = new Random(repetition.getCurrentRepetition());
    List<DataType> types = random.ints(random.nextInt(1, 4), 0, TYPES.size()).mapToObj(TYPES::get).toList();
    Comparator<InternalRow> order = order(types, types.size());
    List<Sorted> files = IntStream.range(0, random.nextInt(1, 12)).mapToObj(file -> {
      List<InternalRow> rows = IntStream.range(0, random.nextInt(1, 4)).mapToObj(row -> row(random, types)).sorted(order).toList();
      return new Sorted(rows, written(FileKeys.between(rows.get(0), rows.get(rows.size() - 1), types)));
    }).toList();
    for (int columns = 1; columns <= types.size(); columns++) {
      FileChains<Sorted> chains = new FileChains<>(Sorted::keys, columns);
      Comparator<InternalRow> wanted = order(types, columns);
      List<List<Sorted>> found = chains.chains(files);
      found.forEach(chain -> assertInOrder(chain, wanted));
      assertEquals(files.size(), found.stream().mapToInt(List::size).sum());
      List<List<Sorted>> groups = chains.groups(files);
      assertInOrder(groups.stream().map(FileKeysTest::together).toList(), wanted, order);
      assertEquals(files.size(), groups.stream().mapToInt(List::size).sum());
    }
  }

  private static List<InternalRow> together(List<Sorted> group) {
    return group.stream().flatMap(file -> file.rows().stream()).toList();
  }

  private static void assertInOrder(List<List<InternalRow>> groups, Comparator<InternalRow> wanted, Comparator<InternalRow> order) {
    for (int next = 1; next < groups.size(); next++) {
      InternalRow last = groups.get(next - 1).stream().max(order).orElseThrow();
      InternalRow first = groups.get(next).stream().min(order).orElseThrow();
      assertTrue(wanted.compare(last, first) <= 0, last + " is before " + first);
    }
  }

  private static void assertInOrder(List<Sorted> chain, Comparator<InternalRow> wanted) {
    List<InternalRow> rows = together(chain);
    for (int next = 1; next < rows.size(); next++) {
      assertTrue(wanted.compare(rows.get(next - 1), rows.get(next)) <= 0, rows.get(next - 1) + " is before " + rows.get(next));
    }
  }

  private static InternalRow row(Random random, List<DataType> types) {
    return new GenericInternalRow(types.stream().map(type -> value(random, type)).toArray());
  }

  private static Object value(Random random, DataType type) {
    if (random.nextInt(12) == 0) {
      return null;
    }
    int number = random.nextInt(-5, 30);
    return switch (type.typeName()) {
      case "long", "timestamp" -> (long) number;
      case "short" -> (short) number;
      case "date" -> number;
      case "double" -> (double) number;
      case "string" -> UTF8String.fromString(TEXTS.get(random.nextInt(TEXTS.size())));
      default -> Decimal.apply(number, ((DecimalType) type).precision(), ((DecimalType) type).scale());
    };
  }

  @SuppressWarnings("unchecked") // Spark's values are comparable, as Spark sorts them
  private static Comparator<InternalRow> order(List<DataType> types, int columns) {
    Comparator<InternalRow> order = (one, other) -> 0;
    for (int column = 0; column < columns; column++) {
      int place = column;
      order = order.thenComparing(row -> (Comparable<Object>) row.get(place, types.get(place)), Comparator.nullsFirst(Comparator.naturalOrder()));
    }
    return order;
  }

  /** As a reader of the manifest has it. */
  private static KeyRange written(KeyRange keys) {
    try {
      KeyRange read = read(new ObjectMapper().writeValueAsString(keys.values()));
      assertEquals(keys, read);
      return read;
    } catch (IOException error) {
      throw new AssertionError(error);
    }
  }

  private static KeyRange read(String json) throws IOException {
    try (JsonParser parser = new ObjectMapper().createParser(json)) {
      parser.nextToken();
      return KeyRange.read(parser);
    }
  }

  @Test
  void asManyChainsAsFilesOverlap() {
    List<KeyRange> ranges = List.of(range(1, 5), range(5, 9), range(2, 3), range(4, 8), range(10, 12), KeyRange.NONE);
    FileChains<KeyRange> chains = new FileChains<>(keys -> keys, 1);
    assertEquals(3, chains.chains(ranges).size());
    assertEquals(List.of(4, 1), chains.groups(ranges.subList(0, 5)).stream().map(List::size).toList());
    assertEquals(List.of(6), chains.groups(ranges).stream().map(List::size).toList());
    List<KeyRange> many = new ArrayList<>(IntStream.range(0, 5_000).mapToObj(place -> range(place, place + 1)).toList());
    assertEquals(1, chains.chains(many).size());
    many.replaceAll(keys -> range(0, 1));
    assertEquals(5_000, chains.chains(many).size());
  }

  private static KeyRange range(long first, long last) {
    return KeyRange.of(List.of(first), List.of(last));
  }

  @Test
  void longTextsAreCutToBounds() {
    DataType text = DataTypes.StringType;
    InternalRow row = new GenericInternalRow(new Object[] {UTF8String.fromString(LONG + "yy"), 7L});
    KeyRange keys = FileKeys.between(row, row, List.of(text, DataTypes.LongType));
    assertEquals(KeyRange.of(List.of(LONG + "y", 7L), List.of(LONG + "z", 7L)), keys);
    assertFalse(keys.isBefore(keys, 1));
  }

  @ParameterizedTest
  @ValueSource(strings = {"7", "\"a\"", "{\"a\": [1]}", "[1]", "[1, [2]]", "[1.5, 2]", "[true, false]", "[9999999999999999999, 1]", "null"})
  void formsOfOtherReleasesAreUnknown(String json) throws IOException {
    assertEquals(KeyRange.NONE, read(json));
  }
}
