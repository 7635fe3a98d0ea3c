package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.write.DistributeRows;
import dev.colocation.spark.write.RowChange.ReadTablets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A statement has read every tablet that may hold a row which fulfils its condition: else a commit that adds such a row meanwhile
 * would not conflict, and the statement would miss it. All conditions of up to three parts are evaluated on all rows.
 */
class ReadTabletsOfTest {
  private static final int BUCKETS = 4;
  private static final TableLayout LAYOUT = new TableLayout(
      List.of(new Manifest.Column("k", "bigint", true, ""), new Manifest.Column("v", "int", true, ""),
          new Manifest.Column("p", "string", true, "")),
      List.of("k"), List.of("p"), List.of("k"));
  private static final AttributeReference K = Expressions.column("k", DataTypes.LongType);
  private static final AttributeReference V = Expressions.column("v", DataTypes.IntegerType);
  private static final AttributeReference P = Expressions.column("p", DataTypes.StringType);
  private static final ReadTabletsOf TABLETS = new ReadTabletsOf(LAYOUT, List.of(K, V, P), BUCKETS);

  private record Row(Long k, Integer v, String p) {
    DataFile tablet() {
      return new DataFile(
          "data/part-1_0000" + bucket(k) + ".parquet", bucket(k), Collections.singletonMap("p", p), 1, 1, "", KeyRange.NONE);
    }

    boolean fulfils(Expression condition) {
      return Expressions.isTrue(condition, Map.of(
          "k", Optional.ofNullable(k), "v", Optional.ofNullable(v), "p", Optional.ofNullable(p).map(UTF8String::fromString)));
    }
  }

  private static int bucket(Long key) {
    return (int) DistributeRows.bucket(List.of(new Literal(key, DataTypes.LongType)), BUCKETS).eval(InternalRow.empty());
  }

  private static Literal number(Long value) {
    return new Literal(value, DataTypes.LongType);
  }

  private static Literal text(String value) {
    return new Literal(value == null ? null : UTF8String.fromString(value), DataTypes.StringType);
  }

  private static In in(Expression column, Expression... values) {
    return new In(column, FilesRelation.sequence(List.of(values)));
  }

  /** Some name keys or partitions; of the others, nothing may be concluded. */
  private static final List<Expression> PARTS = List.of(
      new EqualTo(K, number(1L)), new EqualTo(number(2L), K), new EqualTo(K, number(null)), in(K, number(1L), number(3L)),
      in(K, number(1L), K), new EqualNullSafe(K, number(1L)), new GreaterThan(K, number(3L)),
      new EqualTo(P, text("a")), new EqualTo(text("b"), P), in(P, text("a"), text(null)), new IsNull(P), new EqualNullSafe(P, text(null)),
      new GreaterThan(P, text("a")), new EqualTo(V, new Literal(1, DataTypes.IntegerType)), new Literal(true, DataTypes.BooleanType));

  private static List<Row> rows() {
    List<Row> all = new ArrayList<>();
    for (Long k : Arrays.asList(null, 1L, 2L, 3L, 4L, 5L)) {
      for (String p : Arrays.asList(null, "a", "b", "c")) {
        all.add(new Row(k, 1, p));
      }
    }
    return all;
  }

  private static final List<Row> ROWS = rows();

  private static void assertReadsWhatItChooses(Expression condition) {
    ReadTablets read = TABLETS.condition(condition);
    for (Row row : ROWS) {
      assertTrue(read.contains(row.tablet()) || !row.fulfils(condition), () -> condition.sql() + " reads " + read + ", not " + row);
    }
  }

  @Test
  void noTabletOfAChosenRowIsMissing() {
    for (Expression one : PARTS) {
      assertReadsWhatItChooses(one);
      for (Expression other : PARTS) {
        assertReadsWhatItChooses(new And(one, other));
        assertReadsWhatItChooses(new Or(one, other));
        for (Expression third : PARTS) {
          assertReadsWhatItChooses(new And(one, new Or(other, third)));
          assertReadsWhatItChooses(new And(new And(one, other), third));
        }
      }
    }
  }

  static Stream<Arguments> named() {
    Expression k = new EqualTo(K, number(1L));
    Expression a = new EqualTo(P, text("a"));
    Expression other = new GreaterThan(V, new Literal(0, DataTypes.IntegerType));
    return Stream.of(
        arguments("a key", new And(k, other), Set.of(bucket(1L)), List.of()),
        arguments("keys", in(K, number(1L), number(3L)), Set.of(bucket(1L), bucket(3L)), List.of()),
        arguments("a partition", new And(other, a), Set.of(), List.of(Map.of("p", "a"))),
        arguments("the NULL partition", new IsNull(P), Set.of(), List.of(Collections.singletonMap("p", null))),
        arguments("partitions", new Or(a, new EqualTo(P, text("b"))), Set.of(), List.of(Map.of("p", "a"), Map.of("p", "b"))),
        arguments("a key of a partition", new And(a, k), Set.of(bucket(1L)), List.of(Map.of("p", "a"))),
        arguments("a key or a partition", new Or(a, k), Set.of(), List.of()),
        arguments("something else", other, Set.of(), List.of()),
        arguments("everything", new Literal(true, DataTypes.BooleanType), Set.of(), List.of()));
  }

  /** Less than all is read where the condition names it: other commits do not conflict. */
  @ParameterizedTest(name = "{0}")
  @MethodSource("named")
  void tabletsThatAConditionNames(String name, Expression condition, Set<Integer> buckets, List<Map<String, String>> partitions) {
    assertEquals(new ReadTablets(buckets, partitions), TABLETS.condition(condition));
  }

  /** A MERGE reads the buckets of its source's keys; every bucket where they are too many, or there is none. */
  @Test
  void bucketsOfTheKeysOfASource() {
    Expression on = new EqualTo(K, V);
    assertEquals(Set.of(bucket(1L), bucket(3L)), TABLETS.keys(on, Optional.of(List.of(List.of(1L), List.of(3L)))).buckets());
    assertEquals(Set.of(), TABLETS.keys(on, Optional.empty()).buckets());
    assertEquals(Set.of(), TABLETS.keys(on, Optional.of(List.of())).buckets());
    assertEquals(List.of(Map.of("p", "a")),
        TABLETS.keys(new And(on, new EqualTo(P, text("a"))), Optional.of(List.of(List.of(2L)))).partitions());
  }
}
