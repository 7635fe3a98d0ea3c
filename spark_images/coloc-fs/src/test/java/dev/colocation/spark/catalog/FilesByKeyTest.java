package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.colocation.spark.fs.KeyRange;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.Test;

/** A file is left out only when no key between its first and its last one fulfils the condition. */
class FilesByKeyTest {
  private static final List<Long> KEYS = Arrays.asList(null, 1L, 2L, 3L);
  private static final AttributeReference K = Expressions.column("k", DataTypes.LongType);
  private static final AttributeReference V = Expressions.column("v", DataTypes.LongType);

  private static Literal key(Long value) {
    return new Literal(value, DataTypes.LongType);
  }

  private static In in(Expression column, Expression... values) {
    return new In(column, FilesRelation.sequence(List.of(values)));
  }

  /** Conditions for which a file without NULL is left out if and only if they are false for all keys between its two. */
  private static List<Expression> exact() {
    List<Expression> all = new ArrayList<>(List.of(new IsNull(K), in(K, key(1L), key(3L)), in(K)));
    for (Long value : List.of(1L, 2L, 3L)) {
      all.addAll(List.of(
          new EqualTo(K, key(value)), new EqualTo(key(value), K), new EqualNullSafe(K, key(value)),
          new LessThan(K, key(value)), new LessThan(key(value), K), new LessThanOrEqual(K, key(value)),
          new LessThanOrEqual(key(value), K), new GreaterThan(K, key(value)), new GreaterThan(key(value), K),
          new GreaterThanOrEqual(K, key(value)), new GreaterThanOrEqual(key(value), K)));
    }
    return all;
  }

  /** Of these nothing is concluded, or less than could be. */
  private static List<Expression> others() {
    return List.of(
        new EqualTo(K, key(null)), new EqualNullSafe(K, key(null)), in(K, key(null), key(2L)), in(K, key(2L), V), new EqualTo(V, key(1L)),
        new LessThan(V, key(1L)), new IsNull(V), in(V, key(1L)), new EqualTo(K, V), new LessThan(V, K), new Not(new EqualTo(K, key(1L))));
  }

  private static boolean isTrue(Expression condition, Long key, Long other) {
    Map<String, Optional<?>> row = new LinkedHashMap<>();
    row.put("k", Optional.ofNullable(key));
    row.put("v", Optional.ofNullable(other));
    return Expressions.isTrue(condition, row);
  }

  /** Whether a row of a file with these keys fulfils the condition, by looking at all such rows. */
  private static boolean isTrueOfSome(Expression condition, int first, int last) {
    return KEYS.subList(first, last + 1).stream().anyMatch(key -> KEYS.stream().anyMatch(other -> isTrue(condition, key, other)));
  }

  private static void assertKept(Expression condition, boolean isExact) {
    for (int first = 0; first < KEYS.size(); first++) {
      for (int last = first; last < KEYS.size(); last++) {
        KeyRange keys = KeyRange.of(Arrays.asList(KEYS.get(first)), Arrays.asList(KEYS.get(last)));
        boolean isKept = FilesByKey.mayBeTrue(condition, "K", keys);
        boolean isWanted = isTrueOfSome(condition, first, last);
        assertTrue(isKept || !isWanted, () -> condition.sql() + " needs the file with keys " + keys);
        if (isExact && keys.first().get(0) != null) {
          assertEquals(isWanted, isKept, () -> condition.sql() + " of keys " + keys);
        }
      }
    }
  }

  @Test
  void aFileWithARowThatFulfilsTheConditionIsRead() {
    List<Expression> all = new ArrayList<>(exact());
    all.addAll(others());
    for (Expression one : all) {
      assertKept(one, false);
      for (Expression other : all) {
        assertKept(new And(one, other), false);
        assertKept(new Or(one, other), false);
      }
    }
  }

  /** Where a condition has one part, or parts of which either is enough, no other file is read. */
  @Test
  void noOtherFileIsRead() {
    for (Expression one : exact()) {
      assertKept(one, true);
      exact().forEach(other -> assertKept(new Or(one, other), true));
    }
  }
}
