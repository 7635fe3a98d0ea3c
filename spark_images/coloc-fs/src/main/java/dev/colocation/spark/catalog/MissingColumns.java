package dev.colocation.spark.catalog;

import dev.colocation.spark.plan.Replacing;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.spark.package$;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * {@code INSERT INTO t (k) …} and {@code INSERT INTO t BY NAME …} on Spark 4.0: missing columns become NULL, as in later versions
 * and in Spark's own file tables. Spark 4.0 refuses such statements for tables of catalogs.
 */
public final class MissingColumns extends Rule<LogicalPlan> {
  /** Whether this is Spark 4.0. Later versions complete missing columns and check the lengths of texts themselves. */
  public static boolean isSpark40() {
    return package$.MODULE$.SPARK_VERSION().startsWith("4.0.");
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperatorsUp(Replacing.each(InsertIntoStatement.class, MissingColumns::completed));
  }

  private static LogicalPlan completed(InsertIntoStatement insert) {
    boolean isOurs = CatalogStatements.target(insert.table()) != null && insert.query().resolved();
    List<Attribute> leftOut = isOurs && SQLConf.get().useNullsForMissingDefaultColumnValues() ? leftOut(insert) : List.of();
    if (leftOut.isEmpty()) {
      return insert;
    }
    List<NamedExpression> values = new ArrayList<>(CollectionConverters.asJava(insert.query().output()));
    List<String> names = new ArrayList<>(CollectionConverters.asJava(insert.userSpecifiedCols()));
    for (Attribute column : leftOut) {
      values.add(new Alias(new Literal(null, column.dataType()), column.name(), NamedExpression$.MODULE$.newExprId(),
          FilesRelation.sequence(List.of()), Option.empty(), FilesRelation.sequence(List.of())));
      names.add(column.name());
    }
    return new InsertIntoStatement(
        insert.table(), insert.partitionSpec(), FilesRelation.sequence(insert.byName() ? List.of() : names),
        new Project(FilesRelation.sequence(values), insert.query()), insert.overwrite(), insert.ifPartitionNotExists(),
        insert.byName());
  }

  /** The missing columns; none where rows are given by position, or where the numbers of values and names differ, which Spark refuses. */
  private static List<Attribute> leftOut(InsertIntoStatement insert) {
    List<String> values = CollectionConverters.asJava(insert.query().output()).stream().map(Attribute::name).toList();
    List<String> names = insert.byName() ? values : CollectionConverters.asJava(insert.userSpecifiedCols());
    Set<String> partition = CollectionConverters.asJava(insert.partitionSpec()).keySet();
    Predicate<String> isGiven = column -> isIn(names, column) || isIn(partition, column);
    return names.isEmpty() || names.size() != values.size() ? List.of()
        : CollectionConverters.asJava(insert.table().output()).stream().filter(column -> !isGiven.test(column.name())).toList();
  }

  private static boolean isIn(Iterable<String> names, String column) {
    for (String name : names) {
      if (Boolean.TRUE.equals(SQLConf.get().resolver().apply(name, column))) {
        return true;
      }
    }
    return false;
  }
}
