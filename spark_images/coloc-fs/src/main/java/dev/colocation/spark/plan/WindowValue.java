package dev.colocation.spark.plan;

import java.util.Optional;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CurrentRow$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.FrameLessOffsetWindowFunction;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.RowFrame$;
import org.apache.spark.sql.catalyst.expressions.SizeBasedWindowFunction;
import org.apache.spark.sql.catalyst.expressions.SpecifiedWindowFrame;
import org.apache.spark.sql.catalyst.expressions.UnboundedFollowing$;
import org.apache.spark.sql.catalyst.expressions.UnboundedPreceding$;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.expressions.WindowFrame;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.types.NullType$;
import org.apache.spark.sql.types.StringType;
import scala.jdk.javaapi.CollectionConverters;

/** What a window computes for a row, where generated code can: from rows in order, of which it keeps none, or those of a group. */
sealed interface WindowValue {
  /** When a value is known. */
  enum Known {
    /** With its row. */
    AT_ROW,
    /** With the last row that is equal to it by the window's order. */
    AT_PEERS_END,
    /** With the last row of its partition. */
    AT_PARTITION_END
  }

  /** When the value of a row is known. */
  Known known();

  /** An aggregate from the partition's first row to the current one, to the last of its peers, or of all rows. */
  record Aggregated(DeclarativeAggregate function, Known known) implements WindowValue {}

  /**
   * A column of a row before or after the current one.
   *
   * @param rows how many rows lie between, plus one
   * @param otherwise the value where the partition has no such row
   */
  record Neighbour(Expression input, int rows, Expression otherwise, Known known) implements WindowValue {}

  /** A rank among a number of rows that has to be known first ({@code ntile}): rows are ranked when they are given out. */
  record RankOfSize(DeclarativeAggregate function) implements WindowValue {
    @Override
    public Known known() {
      return Known.AT_PARTITION_END;
    }
  }

  /** Rows before the current one whose column is kept at most. */
  int MOST_ROWS_BEFORE = 64;

  /** The value of a column of a window; empty where Spark's operator is needed. */
  static Optional<WindowValue> of(NamedExpression named) {
    if (!(named instanceof Alias alias && alias.child() instanceof WindowExpression window)) {
      return Optional.empty();
    }
    if (window.windowFunction() instanceof FrameLessOffsetWindowFunction offset) {
      return neighbour(offset);
    }
    boolean isWhole = !(window.windowFunction() instanceof AggregateExpression aggregate)
        || aggregate.filter().isEmpty() && !aggregate.isDistinct();
    Expression function =
        window.windowFunction() instanceof AggregateExpression aggregate ? aggregate.aggregateFunction() : window.windowFunction();
    boolean isPossible = isWhole && function instanceof DeclarativeAggregate declared
        && CollectionConverters.asJava(declared.aggBufferAttributes()).stream()
            .allMatch(buffer -> GroupCode.isOfFixedSize(buffer.dataType()));
    Optional<Known> known = isPossible ? known(window.windowSpec().frameSpecification()) : Optional.empty();
    return function instanceof SizeBasedWindowFunction
        ? known.filter(Known.AT_ROW::equals).map(frame -> new RankOfSize((DeclarativeAggregate) function))
        : known.map(frame -> new Aggregated((DeclarativeAggregate) function, frame));
  }

  private static Optional<Known> known(WindowFrame frame) {
    if (!(frame instanceof SpecifiedWindowFrame rows && rows.lower() == UnboundedPreceding$.MODULE$)) {
      return Optional.empty();
    }
    if (rows.upper() == UnboundedFollowing$.MODULE$) {
      return Optional.of(Known.AT_PARTITION_END);
    }
    return rows.upper() != CurrentRow$.MODULE$ ? Optional.empty()
        : Optional.of(rows.frameType() == RowFrame$.MODULE$ ? Known.AT_ROW : Known.AT_PEERS_END);
  }

  /** Spark has computed what is no plain column before the window. */
  private static Optional<WindowValue> neighbour(FrameLessOffsetWindowFunction function) {
    Expression given = function.children().apply(2);
    Expression otherwise = given.dataType() == NullType$.MODULE$ ? new Literal(null, function.dataType()) : given;
    if (function.ignoreNulls() || !function.offset().foldable() || !otherwise.dataType().equals(function.dataType())
        || !isPlain(function.input()) || !isPlain(otherwise)) {
      return Optional.empty();
    }
    int rows = (int) function.offset().eval(null);
    boolean isKept = GroupCode.isOfFixedSize(function.dataType()) || function.dataType() instanceof StringType;
    return rows > 0 ? Optional.of(new Neighbour(function.input(), rows, otherwise, Known.AT_PARTITION_END))
        : rows < 0 && rows >= -MOST_ROWS_BEFORE && isKept
            ? Optional.of(new Neighbour(function.input(), -rows, otherwise, Known.AT_ROW)) : Optional.empty();
  }

  private static boolean isPlain(Expression expression) {
    return expression instanceof AttributeReference || expression.foldable();
  }
}
