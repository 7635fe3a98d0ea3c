package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Test;
import scala.Option;

/** How a MERGE finds the rows to insert, and the rows that move. */
class RowChangeQueriesTest {
  private static final Expression KEY = Expressions.column("k", DataTypes.IntegerType);
  private static final Expression TEXT = Expressions.column("v", DataTypes.StringType);
  private static final Expression ONE = new Literal(1, DataTypes.IntegerType);

  /** Then the rows that match need not be computed: an ANTI join suffices. */
  @Test
  void comparisonsOfColumnsAndConstantsNeverFail() {
    Expression in = new In(KEY, FilesRelation.sequence(List.of(ONE, KEY)));
    List<Expression> never = List.of(
        KEY, ONE, new EqualTo(KEY, ONE), new EqualNullSafe(KEY, ONE), new LessThan(ONE, KEY), new IsNull(TEXT), new IsNotNull(TEXT), in);
    for (Expression one : never) {
      assertEquals(true, RowChangeQueries.neverFails(one), one.sql());
      assertEquals(true, RowChangeQueries.neverFails(new Not(one)), one.sql());
    }
    Expression cast = Cast$.MODULE$.apply(TEXT, DataTypes.IntegerType, Option.empty(), true);
    List<Expression> fails = List.of(cast, new EqualTo(ONE, cast), new IsNull(cast), new In(KEY, FilesRelation.sequence(List.of(ONE, cast))));
    for (Expression one : fails) {
      assertEquals(false, RowChangeQueries.neverFails(one), one.sql());
      assertEquals(false, RowChangeQueries.neverFails(new Not(one)), one.sql());
      for (Expression other : never) {
        assertEquals(false, RowChangeQueries.neverFails(new And(one, other)), one.sql());
        assertEquals(false, RowChangeQueries.neverFails(new Or(other, one)), one.sql());
        assertEquals(true, RowChangeQueries.neverFails(new Or(new And(other, in), other)), other.sql());
      }
    }
  }

  /** A row whose key gets an equal value stays where it is only if that value has the same bytes. */
  @Test
  void equalFractionsMayHaveOtherBytes() {
    for (DataType type : List.of(DataTypes.IntegerType, DataTypes.LongType, DataTypes.StringType, DataTypes.DateType,
        DataTypes.TimestampType, DataTypes.BooleanType, DataTypes.BinaryType, DataTypes.createDecimalType(9, 2))) {
      assertEquals(true, RowChangeQueries.isComparedByBytes(type), type.sql());
    }
    for (DataType type : List.of(DataTypes.FloatType, DataTypes.DoubleType, StringType$.MODULE$.apply("UTF8_LCASE"),
        new StructType().add("part", DataTypes.DoubleType))) {
      assertEquals(false, RowChangeQueries.isComparedByBytes(type), type.sql());
    }
  }
}
