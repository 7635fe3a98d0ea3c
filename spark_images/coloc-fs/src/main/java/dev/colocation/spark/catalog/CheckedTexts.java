package dev.colocation.spark.catalog;

import dev.colocation.spark.plan.Replacing;
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
    return plan.resolveOperatorsUp(Replacing.each(V2WriteCommand.class, CheckedTexts::plain));
  }

  private static LogicalPlan plain(V2WriteCommand command) {
    LogicalPlan table = (LogicalPlan) command.table();
    boolean isPlain = command.resolved() && CatalogStatements.target(table) != null
        && CollectionConverters.asJava(table.output()).stream().noneMatch(column -> column.metadata().contains(DECLARED_TYPE));
    return (LogicalPlan) (isPlain ? command.withNewQuery(plain(command.query(), PROJECTIONS)) : command);
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
    Expression value = alias.child() instanceof AttributeReference
        ? plain(alias.child()) : alias.child().mapChildren(CheckedTexts::plain);
    Metadata metadata = new MetadataBuilder().withMetadata(alias.metadata()).remove(DECLARED_TYPE).build();
    return new Alias(
        value, alias.name(), alias.exprId(), alias.qualifier(), Option.apply(metadata), alias.nonInheritableMetadataKeys());
  }

  private static Expression plain(Expression value) {
    return value instanceof AttributeReference attribute ? CharVarcharUtils.cleanAttrMetadata(attribute) : value;
  }
}
