package dev.colocation.spark.plan;

import dev.colocation.spark.fs.KeyRange;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.ByteType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType$;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType$;
import org.apache.spark.sql.types.ShortType$;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Ranges of a key that follow each other and leave nothing out: the first begins with NULL, each ends below a bound, with which the
 * next one begins.
 *
 * @param bounds ascending, as {@link KeyRange} has values: {@code Long} or {@code String}
 * @param hot a key that has more bytes than a task should; none is known where files tell of none
 */
public record KeyRanges(List<Object> bounds, List<HotKey> hot) implements Serializable {
  /** All keys. */
  public static final KeyRanges ALL = new KeyRanges(List.of());

  /** A key with its share of all bytes; null is NULL. */
  public record HotKey(Object key, double share) implements Serializable {}

  KeyRanges(List<Object> bounds) {
    this(bounds, List.of());
  }

  /** Of a file, so many points at most are taken to lie evenly between its first and its last key; of all files this many. */
  private static final int POINTS = 64;
  private static final int ALL_POINTS = 100_000;

  /** Rows with keys between these. Of texts only the first one is known to be a key: the last one may be cut. */
  public record Piece(KeyRange keys, double bytes) {}

  private record Point(Object key, double bytes) {}

  /** How many ranges these are. */
  public int count() {
    return bounds.size() + 1;
  }

  /**
   * So many ranges at most, of about as many bytes each. There are fewer where many rows have the same key, or nothing tells where
   * within a file texts lie.
   */
  public static KeyRanges of(List<Piece> pieces, int count) {
    int each = Math.max(1, Math.min(POINTS, ALL_POINTS / Math.max(1, pieces.size())));
    List<Point> points = pieces.stream().flatMap(piece -> points(piece, each).stream())
        .sorted((one, other) -> KeyRange.compare(one.key, other.key)).toList();
    double all = points.stream().mapToDouble(Point::bytes).sum();
    List<Object> bounds = new ArrayList<>();
    Object last = points.isEmpty() ? null : points.get(0).key;
    double before = 0;
    for (Point point : points) {
      if (before >= all * (bounds.size() + 1) / count && KeyRange.compare(last, point.key) < 0) {
        bounds.add(point.key);
        last = point.key;
      }
      before += point.bytes;
    }
    return new KeyRanges(List.copyOf(bounds));
  }

  /** The same, with the key that alone has most bytes in files of no other key, where that is more than a share of all. */
  KeyRanges withHot(List<Piece> pieces, double share) {
    Map<Object, Double> alone = new HashMap<>();
    pieces.stream().filter(piece -> Objects.equals(piece.keys.first().get(0), piece.keys.last().get(0)))
        .forEach(piece -> alone.merge(piece.keys.first().get(0), piece.bytes, Double::sum));
    double all = pieces.stream().mapToDouble(Piece::bytes).sum();
    return new KeyRanges(bounds, alone.entrySet().stream().max(Map.Entry.comparingByValue())
        .map(most -> new HotKey(most.getKey(), most.getValue() / all)).filter(most -> most.share > share).stream().toList());
  }

  private static List<Point> points(Piece piece, int count) {
    if (!(piece.keys.first().get(0) instanceof Long first) || !(piece.keys.last().get(0) instanceof Long last)) {
      return List.of(new Point(piece.keys.first().get(0), piece.bytes));
    }
    List<Point> points = new ArrayList<>();
    double step = ((double) last - (double) first) / count;
    for (int place = 0; place < count; place++) {
      points.add(new Point((long) (first + step * place), piece.bytes / count));
    }
    return points;
  }

  /** What all keys of a range fulfil, and no others. */
  List<Expression> conditions(Expression key, int range) {
    if (count() == 1) {
      return List.of();
    }
    List<Expression> conditions = new ArrayList<>();
    if (range > 0) {
      conditions.add(new GreaterThanOrEqual(key, literal(bounds.get(range - 1), key.dataType())));
    }
    if (range < bounds.size()) {
      Expression below = new LessThan(key, literal(bounds.get(range), key.dataType()));
      conditions.add(range > 0 ? below : new Or(new IsNull(key), below));
    }
    return conditions;
  }

  /** A bound as Spark has values of a type. */
  static Literal literal(Object bound, DataType type) {
    if (!(bound instanceof Long number)) {
      return new Literal(UTF8String.fromString(bound.toString()), type);
    }
    Object value = type instanceof DecimalType decimal ? Decimal.apply(number, decimal.precision(), decimal.scale())
        : type == IntegerType$.MODULE$ || type == DateType$.MODULE$ ? (Object) number.intValue()
        : type == ShortType$.MODULE$ ? (Object) number.shortValue()
        : type == ByteType$.MODULE$ ? (Object) number.byteValue() : number;
    return new Literal(value, type);
  }
}
