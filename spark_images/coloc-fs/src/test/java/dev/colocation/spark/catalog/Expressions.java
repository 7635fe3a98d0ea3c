package dev.colocation.spark.catalog;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import scala.runtime.AbstractPartialFunction;

/** Spark's expressions, evaluated for rows of a test. */
final class Expressions {
  private Expressions() {}

  static AttributeReference column(String name, DataType type) {
    return new AttributeReference(name, type, true, Metadata.empty(), NamedExpression.newExprId(), FilesRelation.sequence(List.of()));
  }

  /** Whether a row fulfils a condition; values by names of columns, empty = NULL. */
  static boolean isTrue(Expression condition, Map<String, Optional<?>> row) {
    return Boolean.TRUE.equals(condition.transform(new Values(row)).eval(InternalRow.empty()));
  }

  private static final class Values extends AbstractPartialFunction<Expression, Expression> {
    private static final long serialVersionUID = 1L;

    private final transient Map<String, Optional<?>> row;

    Values(Map<String, Optional<?>> row) {
      this.row = row;
    }

    @Override
    public boolean isDefinedAt(Expression part) {
      return part instanceof AttributeReference;
    }

    @Override
    public Expression apply(Expression part) {
      AttributeReference column = (AttributeReference) part;
      return new Literal(row.get(column.name()).orElse(null), column.dataType());
    }
  }
}
