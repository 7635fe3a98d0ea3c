package dev.colocation.spark.write;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BaseOrdering;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.RowOrdering;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.DataType;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Whether the rows of a file come in the order that its manifest promises. Readers merge files without sorting them, so
 * rows in another order would be lost in joins without a word.
 */
final class RowOrder {
  /** Each keeps its last result until it is asked again, so two rows can be compared without a copy. */
  private final List<Function1<InternalRow, InternalRow>> keysOf;
  private final BaseOrdering order;
  private InternalRow last;
  private int turn;

  RowOrder(List<RowFields.Field> sortKeys) {
    keysOf = List.of(projection(sortKeys), projection(sortKeys));
    List<DataType> types = sortKeys.stream().map(RowFields.Field::type).toList();
    order = RowOrdering.createNaturalAscendingOrdering(sequence(types));
  }

  private static Function1<InternalRow, InternalRow> projection(List<RowFields.Field> fields) {
    List<Expression> columns = fields.stream()
        .<Expression>map(field -> new BoundReference(field.ordinal(), field.type(), true)).toList();
    return UnsafeProjection.create(sequence(columns));
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }

  /** The next row is the first of a file. */
  void begin() {
    last = null;
  }

  /** Whether the row may come after the one before: ascending, NULL first, as Spark sorts. */
  boolean takes(InternalRow row) {
    InternalRow key = keysOf.get(turn).apply(row);
    boolean isInOrder = last == null || order.compare(last, key) <= 0;
    last = key;
    turn = 1 - turn;
    return isInOrder;
  }
}
