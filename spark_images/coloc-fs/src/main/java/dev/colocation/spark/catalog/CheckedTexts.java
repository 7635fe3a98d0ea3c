package dev.colocation.spark.catalog;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * Writes of VARCHAR and CHAR columns on Spark 4.0: once Spark has checked the lengths of values, they are plain texts, as the table's
 * columns are then. Spark 4.0 still declares a length for values, hides it by a cast, and refuses the plan when it simplifies the cast
 * (SPARK-52772).
 */
public final class CheckedTexts extends Rule<LogicalPlan> {
  /** Where Spark keeps the declared type of a column whose type is STRING in plans. */
  private static final String DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING";

  /** The projection that checks lengths, and the one that casts its columns. */
  private static final int PROJECTIONS = 2;

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperatorsUp(new Plain());
  }

  private static final class Plain extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return node instanceof V2WriteCommand command && command.resolved() && CatalogStatements.target((LogicalPlan) command.table()) != null
          && CollectionConverters.asJava(((LogicalPlan) command.table()).output()).stream()
              .noneMatch(column -> column.metadata().contains(DECLARED_TYPE));
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      V2WriteCommand command = (V2WriteCommand) node;
      return (LogicalPlan) command.withNewQuery(plain(command.query(), PROJECTIONS));
    }
  }

  private static LogicalPlan plain(LogicalPlan query, int projections) {
    if (projections == 0 || !(query instanceof Project project)) {
      return query;
    }
    List<NamedExpression> columns = new ArrayList<>();
    CollectionConverters.asJava(project.projectList()).forEach(column -> columns.add(plain(column)));
    return new Project(FilesRelation.sequence(columns), plain(project.child(), projections - 1));
  }

  private static NamedExpression plain(NamedExpression column) {
    if (column instanceof AttributeReference attribute) {
      return CharVarcharUtils.cleanAttrMetadata(attribute);
    }
    if (!(column instanceof Alias alias)) {
      return column;
    }
    Expression value = alias.child() instanceof AttributeReference attribute
        ? CharVarcharUtils.cleanAttrMetadata(attribute) : alias.child().mapChildren(new PlainAttribute());
    Metadata metadata = new MetadataBuilder().withMetadata(alias.metadata()).remove(DECLARED_TYPE).build();
    return new Alias(
        value, alias.name(), alias.exprId(), alias.qualifier(), Option.apply(metadata), alias.nonInheritableMetadataKeys());
  }

  private static final class PlainAttribute extends AbstractFunction1<Expression, Expression> {
    @Override
    public Expression apply(Expression child) {
      return child instanceof AttributeReference attribute ? CharVarcharUtils.cleanAttrMetadata(attribute) : child;
    }
  }
}
