package dev.colocation.spark.write;

import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.fs.Manifest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.And;
import org.apache.spark.sql.connector.expressions.filter.Or;
import org.apache.spark.sql.connector.expressions.filter.Predicate;

/** Conditions that mean whole partitions: equalities of partition columns, IN, IS NULL, and these joined by AND and OR. */
public final class PartitionPredicates {
  private final TableLayout layout;

  public PartitionPredicates(TableLayout layout) {
    this.layout = layout;
  }

  /**
   * The partitions that fulfil all conditions: each entry stands for all partitions that have its values, by stored names.
   *
   * @return empty when a condition is of another kind
   */
  public Optional<List<Map<String, String>>> partitions(Predicate[] conditions) {
    Optional<List<Map<String, String>>> found = Optional.of(List.of(Map.of()));
    for (Predicate condition : conditions) {
      found = both(found, partitions(condition));
    }
    return found;
  }

  private Optional<List<Map<String, String>>> partitions(Expression condition) {
    if (condition instanceof And and) {
      return both(partitions(and.left()), partitions(and.right()));
    }
    if (condition instanceof Or or) {
      return either(partitions(or.left()), partitions(or.right()));
    }
    if (!(condition instanceof Predicate predicate)) {
      return Optional.empty();
    }
    Expression[] parts = predicate.children();
    return switch (predicate.name()) {
      case "ALWAYS_TRUE" -> Optional.of(List.of(Map.of()));
      case "ALWAYS_FALSE" -> Optional.of(List.of());
      case "=" -> equal(parts[0], parts[1], false);
      case "<=>" -> equal(parts[0], parts[1], true);
      case "IS_NULL" -> column(parts[0]).map(column -> List.of(value(column, null)));
      case "IN" -> Arrays.stream(parts).skip(1).map(part -> equal(parts[0], part, false))
          .reduce(Optional.of(List.of()), PartitionPredicates::either);
      default -> Optional.empty();
    };
  }

  private Optional<List<Map<String, String>>> equal(Expression one, Expression other, boolean nullIsEqual) {
    if (one instanceof Literal<?> && !(other instanceof Literal<?>)) {
      return equal(other, one, nullIsEqual);
    }
    Optional<String> column = column(one);
    if (column.isEmpty() || !(other instanceof Literal<?> literal)) {
      return Optional.empty();
    }
    if (isZero(literal.value())) {
      return Optional.of(List.of(value(column.get(), "0.0"), value(column.get(), "-0.0")));
    }
    String text = PartitionText.of(literal.value(), literal.dataType());
    // An empty text is NULL in partitions, so none is equal to it.
    boolean isNone = text == null && !(nullIsEqual && literal.value() == null);
    return Optional.of(isNone ? List.of() : List.of(value(column.get(), text)));
  }

  /** 0.0 and -0.0 are equal, but two partitions. */
  private static boolean isZero(Object value) {
    return value instanceof Double one && one == 0 || value instanceof Float other && other == 0;
  }

  private static Map<String, String> value(String column, String text) {
    Map<String, String> value = new TreeMap<>();
    value.put(column, text);
    return value;
  }

  /** The stored name of a partition column; empty for anything else. */
  private Optional<String> column(Expression part) {
    return part instanceof NamedReference name && name.fieldNames().length == 1
        ? layout.partitionedBy().stream().filter(name.fieldNames()[0]::equalsIgnoreCase).findFirst()
            .map(layout::column).map(Manifest.Column::storedName)
        : Optional.empty();
  }

  private static Optional<List<Map<String, String>>> either(
      Optional<List<Map<String, String>>> one, Optional<List<Map<String, String>>> other) {
    if (one.isEmpty() || other.isEmpty()) {
      return Optional.empty();
    }
    List<Map<String, String>> all = new ArrayList<>(one.get());
    all.addAll(other.get());
    return Optional.of(List.copyOf(all));
  }

  private static Optional<List<Map<String, String>>> both(
      Optional<List<Map<String, String>>> one, Optional<List<Map<String, String>>> other) {
    if (one.isEmpty() || other.isEmpty()) {
      return Optional.empty();
    }
    List<Map<String, String>> all = new ArrayList<>();
    for (Map<String, String> left : one.get()) {
      for (Map<String, String> right : other.get()) {
        Map<String, String> merged = new TreeMap<>(left);
        merged.putAll(right);
        if (left.entrySet().stream().allMatch(
            value -> Objects.equals(merged.get(value.getKey()), value.getValue()))) {
          all.add(merged);
        }
      }
    }
    return Optional.of(all);
  }
}
