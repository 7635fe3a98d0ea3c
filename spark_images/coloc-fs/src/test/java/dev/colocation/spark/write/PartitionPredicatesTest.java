package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.fs.Manifest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.filter.AlwaysFalse;
import org.apache.spark.sql.connector.expressions.filter.AlwaysTrue;
import org.apache.spark.sql.connector.expressions.filter.And;
import org.apache.spark.sql.connector.expressions.filter.Not;
import org.apache.spark.sql.connector.expressions.filter.Or;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;
import scala.jdk.javaapi.CollectionConverters;

/**
 * DELETE and INSERT OVERWRITE of a condition choose the partitions in which it is true, no other and none less. All conditions of one
 * or two parts are compared with their values in SQL, partition by partition.
 */
class PartitionPredicatesTest {
  /** Column p was renamed: manifests and folders have its first name. */
  private static final TableLayout LAYOUT = new TableLayout(
      List.of(new Manifest.Column("k", "bigint", true, ""), new Manifest.Column("P", "string", true, "old"),
          new Manifest.Column("q", "int", true, ""), new Manifest.Column("d", "double", true, "")),
      List.of("k"), List.of("P", "q", "d"), List.of("k"));

  /** A partition's values; null = NULL. */
  private record Partition(String p, Integer q, Double d) {
    DataFile file() {
      Map<String, String> values = new TreeMap<>();
      values.put("old", p);
      values.put("q", q == null ? null : q.toString());
      values.put("d", d == null ? null : d.toString());
      return new DataFile("data/x", 0, values, 1, 1, "", KeyRange.NONE);
    }
  }

  /**
   * A condition, and its value in SQL: null = unknown.
   *
   * @param isUnderstood whether it names partitions
   */
  private record Condition(Predicate predicate, Function<Partition, Boolean> isTrue, boolean isUnderstood) {}

  private static final List<Partition> PARTITIONS = partitions();
  private static final List<Condition> CONDITIONS = conditions();

  private static List<Partition> partitions() {
    List<Partition> all = new ArrayList<>();
    for (String p : Arrays.asList(null, "a", "b")) {
      for (Integer q : Arrays.asList(null, 1, 2)) {
        for (Double d : Arrays.asList(null, 0.0, -0.0, 1.5)) {
          all.add(new Partition(p, q, d));
        }
      }
    }
    return all;
  }

  private static Expression text(String value) {
    return new LiteralValue<>(value == null ? null : UTF8String.fromString(value), DataTypes.StringType);
  }

  private static <T> Expression literal(T value, DataType type) {
    return new LiteralValue<>(value, type);
  }

  private static Expression column(String... names) {
    return new FieldReference(CollectionConverters.asScala(List.of(names)).toSeq());
  }

  private static Predicate predicate(String name, Expression... parts) {
    return new Predicate(name, parts);
  }

  private static <T> Boolean equal(T one, T other) {
    return one == null || other == null ? null : one.equals(other);
  }

  private static List<Condition> conditions() {
    Expression p = column("p");
    Expression q = column("Q");
    Expression d = column("d");
    Expression one = literal(1, DataTypes.IntegerType);
    Expression none = literal(null, DataTypes.IntegerType);
    Expression zero = literal(-0.0, DataTypes.DoubleType);
    return List.of(
        new Condition(predicate("=", p, text("a")), at -> equal(at.p(), "a"), true),
        new Condition(predicate("=", text("b"), p), at -> equal(at.p(), "b"), true),
        new Condition(predicate("=", p, text("")), at -> equal(at.p(), ""), true),
        new Condition(predicate("=", p, text(null)), at -> null, true),
        new Condition(predicate("<=>", p, text("a")), at -> "a".equals(at.p()), true),
        new Condition(predicate("<=>", text(null), p), at -> at.p() == null, true),
        new Condition(predicate("<=>", p, text("")), at -> false, true),
        new Condition(predicate("IS_NULL", p), at -> at.p() == null, true),
        new Condition(predicate("=", q, one), at -> equal(at.q(), 1), true),
        new Condition(predicate("IN", q, one, literal(2, DataTypes.IntegerType)), at -> at.q() == null ? null : at.q() < 3, true),
        new Condition(predicate("IN", q, none, one), at -> equal(at.q(), 1), true),
        new Condition(predicate("IN", q), at -> false, true),
        new Condition(predicate("=", d, zero), at -> at.d() == null ? null : at.d() == 0, true),
        new Condition(predicate("=", d, literal(1.5, DataTypes.DoubleType)), at -> equal(at.d(), 1.5), true),
        new Condition(new AlwaysTrue(), at -> true, true),
        new Condition(new AlwaysFalse(), at -> false, true),
        new Condition(predicate(">", q, one), at -> null, false),
        new Condition(new Not(predicate("=", q, one)), at -> null, false),
        new Condition(predicate("=", column("k"), one), at -> null, false),
        new Condition(predicate("=", column("p", "q"), one), at -> null, false),
        new Condition(predicate("=", p, p), at -> null, false),
        new Condition(predicate("=", one, one), at -> null, false),
        new Condition(predicate("IN", q, one, p), at -> null, false),
        new Condition(predicate("IS_NULL", column("k")), at -> null, false),
        new Condition(predicate("BOOLEAN_EXPRESSION", p), at -> null, false));
  }

  private static void assertChooses(Function<Partition, Boolean> isTrue, boolean isUnderstood, Predicate... conditions) {
    Optional<List<Map<String, String>>> found = new PartitionPredicates(LAYOUT).partitions(conditions);
    assertEquals(isUnderstood, found.isPresent(), () -> Arrays.toString(conditions));
    found.ifPresent(chosen -> {
      for (Partition partition : PARTITIONS) {
        assertEquals(Boolean.TRUE.equals(isTrue.apply(partition)), Change.isIn(partition.file(), chosen),
            () -> Arrays.toString(conditions) + " in " + partition);
      }
    });
  }

  @Test
  void aConditionChoosesThePartitionsInWhichItIsTrue() {
    for (Condition one : CONDITIONS) {
      assertChooses(one.isTrue(), one.isUnderstood(), one.predicate());
      for (Condition other : CONDITIONS) {
        boolean isUnderstood = one.isUnderstood() && other.isUnderstood();
        Function<Partition, Boolean> both =
            at -> Boolean.TRUE.equals(one.isTrue().apply(at)) && Boolean.TRUE.equals(other.isTrue().apply(at));
        Function<Partition, Boolean> either =
            at -> Boolean.TRUE.equals(one.isTrue().apply(at)) || Boolean.TRUE.equals(other.isTrue().apply(at));
        assertChooses(both, isUnderstood, one.predicate(), other.predicate());
        assertChooses(both, isUnderstood, new And(one.predicate(), other.predicate()));
        assertChooses(either, isUnderstood, new Or(one.predicate(), other.predicate()));
      }
    }
  }

  @Test
  void noConditionIsAllPartitions() {
    assertChooses(at -> true, true);
  }
}
