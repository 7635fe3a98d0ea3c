package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.write.DistributeRows;
import dev.colocation.spark.write.PartitionPredicates;
import dev.colocation.spark.write.RowChange.ReadTablets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.CatalystTypeConverters$;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$;
import scala.Function1;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The tablets that a statement's condition may be true in. Equalities of the whole bucket key name buckets, equalities of partition
 * columns name partitions; every other part of the condition is ignored. A commit that changes one of these tablets meanwhile
 * conflicts with the statement.
 */
final class ReadTabletsOf {
  /** So many keys are hashed on the driver. */
  private static final int MOST_KEYS = 10_000;

  private final TableLayout layout;
  private final List<AttributeReference> columns;
  private final int buckets;

  ReadTabletsOf(TableLayout layout, List<AttributeReference> columns, int buckets) {
    this.layout = layout;
    this.columns = columns;
    this.buckets = buckets;
  }

  /** Those of a condition of the target's columns. */
  ReadTablets condition(Expression condition) {
    List<Expression> conjuncts = RowChangeQueries.conjuncts(condition).toList();
    return new ReadTablets(buckets(conjuncts), partitions(conjuncts));
  }

  /** Those of a MERGE whose source has these keys, in the order of the bucket key; rows with a NULL in them match nothing. */
  ReadTablets keys(Expression condition, Optional<List<List<Object>>> keys) {
    List<Expression> conjuncts = RowChangeQueries.conjuncts(condition).toList();
    Set<Integer> found = new TreeSet<>(buckets(conjuncts));
    keys.filter(values -> !values.isEmpty()).ifPresent(values -> values.forEach(key -> found.add(bucket(key))));
    return new ReadTablets(found, partitions(conjuncts));
  }

  /** The rows of a query without NULLs, with values as Spark has them internally; empty where they are many. */
  static Optional<List<List<Object>>> few(Dataset<Row> keys) {
    List<Row> found = keys.limit(MOST_KEYS + 1).collectAsList();
    if (found.size() > MOST_KEYS) {
      return Optional.empty();
    }
    List<Function1<Object, Object>> converters = Stream.of(keys.schema().fields())
        .map(field -> CatalystTypeConverters$.MODULE$.createToCatalystConverter(field.dataType())).toList();
    return Optional.of(found.stream().filter(row -> !row.anyNull()).map(row -> internal(row, converters)).toList());
  }

  private static List<Object> internal(Row row, List<Function1<Object, Object>> converters) {
    return IntStream.range(0, converters.size()).mapToObj(place -> converters.get(place).apply(row.get(place))).toList();
  }

  // Buckets

  /** The buckets of the keys that the condition allows; none where it allows any. */
  private Set<Integer> buckets(List<Expression> conjuncts) {
    List<List<Object>> keys = List.of(List.of());
    for (String name : layout.bucketedBy()) {
      Optional<List<Object>> values = conjuncts.stream().flatMap(conjunct -> values(conjunct, column(name)).stream()).findFirst();
      if (values.isEmpty() || (long) values.get().size() * keys.size() > MOST_KEYS) {
        return Set.of();
      }
      keys = keys.stream().flatMap(key -> values.get().stream().map(value -> with(key, value))).toList();
    }
    Set<Integer> found = new HashSet<>();
    keys.forEach(key -> found.add(bucket(key)));
    return found;
  }

  private static List<Object> with(List<Object> key, Object value) {
    List<Object> longer = new ArrayList<>(key);
    longer.add(value);
    return longer;
  }

  private int bucket(List<Object> key) {
    List<Expression> values = new ArrayList<>();
    for (int place = 0; place < key.size(); place++) {
      values.add(new Literal(key.get(place), column(layout.bucketedBy().get(place)).dataType()));
    }
    return (int) DistributeRows.bucket(values, buckets).eval(InternalRow.empty());
  }

  /** The values that a condition allows for a column, as Spark has them in rows; empty where it is of another kind. */
  private static Optional<List<Object>> values(Expression conjunct, AttributeReference column) {
    if (conjunct instanceof EqualTo equal) {
      return Stream.of(List.of(equal.left(), equal.right()), List.of(equal.right(), equal.left()))
          .filter(sides -> sides.get(0).semanticEquals(column)).flatMap(sides -> value(sides.get(1), column).stream())
          .findFirst().map(ReadTabletsOf::one);
    }
    if (conjunct instanceof In in && in.value().semanticEquals(column)) {
      List<Object> values = new ArrayList<>();
      for (Expression listed : CollectionConverters.asJava(in.list())) {
        Optional<Object[]> value = value(listed, column);
        if (value.isEmpty()) {
          return Optional.empty();
        }
        values.add(value.get()[0]);
      }
      return Optional.of(values);
    }
    return Optional.empty();
  }

  private static List<Object> one(Object[] value) {
    List<Object> values = new ArrayList<>();
    values.add(value[0]);
    return values;
  }

  /** The value of a constant, which may be null; empty for anything else. */
  private static Optional<Object[]> value(Expression constant, AttributeReference column) {
    return constant.foldable() && constant.deterministic() && constant.dataType().equals(column.dataType())
        ? Optional.of(new Object[] {constant.eval(InternalRow.empty())}) : Optional.empty();
  }

  private AttributeReference column(String name) {
    return columns.stream().filter(column -> column.name().equalsIgnoreCase(name)).findFirst().orElseThrow();
  }

  // Partitions

  private List<Map<String, String>> partitions(List<Expression> conjuncts) {
    List<Predicate> understood = new ArrayList<>();
    PartitionPredicates predicates = new PartitionPredicates(layout);
    for (Expression conjunct : conjuncts) {
      boolean namesColumns = CollectionConverters.asJava(conjunct.references().toSeq()).stream()
          .allMatch(part -> columns.stream().anyMatch(column -> column.exprId().equals(part.exprId())));
      if (namesColumns && !conjunct.references().isEmpty()) {
        Option<Predicate> translated = DataSourceV2Strategy$.MODULE$.translateFilterV2(conjunct);
        if (translated.isDefined() && predicates.partitions(new Predicate[] {translated.get()}).isPresent()) {
          understood.add(translated.get());
        }
      }
    }
    List<Map<String, String>> found =
        understood.isEmpty() ? List.of() : predicates.partitions(understood.toArray(Predicate[]::new)).orElseThrow();
    return found.contains(Map.<String, String>of()) ? List.of() : found;
  }
}
