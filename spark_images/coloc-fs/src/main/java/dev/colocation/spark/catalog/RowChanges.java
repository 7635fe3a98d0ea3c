package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.plan.Replacing;
import dev.colocation.spark.write.RowChange;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.AssignmentUtils$;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.DeleteAction;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeAction;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.errors.QueryCompilationErrors$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * {@code UPDATE}, {@code DELETE} and {@code MERGE} of single rows: puts a {@link RowChangeCommand} in the place of a resolved
 * statement, before Spark rewrites it for tables that replace groups of rows. Spark's own rewriting hides that rows stay in their
 * bucket, and reads the source twice. A {@code DELETE} by partition columns only stays Spark's: it drops whole partitions.
 */
public final class RowChanges extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(RowChanges.class);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      return command(plan instanceof WithCTE with ? withDefinitions(with) : plan).orElse(plan);
    } catch (LinkageError error) {
      LOG.warn("this Spark's plans are not understood; rows of tables of a ColocationCatalog cannot be changed", error);
      return plan;
    }
  }

  /** Of a view Spark would say that the table below it takes no such statement. */
  private static void refuseView(LogicalPlan target) {
    if (target instanceof SubqueryAlias alias) {
      refuseView(alias.child());
    } else if (target instanceof View view) {
      Option<LogicalPlan> ours = view.find(part -> part instanceof SubqueryAlias alias && isOurs(alias));
      if (ours.isDefined()) {
        throw new ColocationException("UPDATE, DELETE and MERGE change tables, and this is a view of "
            + String.join(".", parts((SubqueryAlias) ours.get())) + ": name that table instead").unchecked();
      }
    }
  }

  private static boolean isOurs(SubqueryAlias alias) {
    return alias.identifier().qualifier().nonEmpty() && !ColocationNames.catalogIfOurs(parts(alias)).isEmpty();
  }

  private static List<String> parts(SubqueryAlias alias) {
    List<String> parts = new ArrayList<>(CollectionConverters.asJava(alias.identifier().qualifier()));
    parts.add(alias.identifier().name());
    return parts;
  }

  /** The statement with its common table expressions in each of its queries. */
  private static LogicalPlan withDefinitions(WithCTE with) {
    LogicalPlan statement = with.plan().mapExpressions(expression -> inSubqueries(expression, with));
    return statement instanceof MergeIntoTable merge
        ? merge.withNewChildren(FilesRelation.sequence(List.of(merge.targetTable(), new WithCTE(merge.sourceTable(), with.cteDefs()))))
        : statement;
  }

  private static Expression inSubqueries(Expression expression, WithCTE with) {
    return expression.transform(Replacing.each(
        SubqueryExpression.class, subquery -> subquery.withNewPlan(new WithCTE(subquery.plan(), with.cteDefs()))));
  }

  private static Optional<LogicalPlan> command(LogicalPlan plan) {
    if (plan instanceof DeleteFromTable delete) {
      refuseView(delete.table());
    } else if (plan instanceof UpdateTable update) {
      refuseView(update.table());
    } else if (plan instanceof MergeIntoTable merge) {
      refuseView(merge.targetTable());
    }
    if (plan instanceof DeleteFromTable delete && CatalogStatements.target(delete.table()) != null && delete.resolved()
        && !CatalogStatements.namesPartitionsOnly(delete)) {
      requireDeterministic(delete);
      return Optional.of(command(RowChange.Kind.DELETE, delete.table(), RowStatement.delete(delete.condition())));
    }
    if (plan instanceof UpdateTable update && CatalogStatements.target(update.table()) != null && update.resolved()) {
      requireDeterministic(update);
      Expression condition = update.condition().getOrElse(Literal$.MODULE$::TrueLiteral);
      List<Expression> values = new Assignments(relation(update.table())).ofUpdate(update.assignments());
      return Optional.of(command(RowChange.Kind.UPDATE, update.table(), RowStatement.update(condition, values)));
    }
    if (plan instanceof MergeIntoTable merge && CatalogStatements.target(merge.targetTable()) != null && merge.resolved()) {
      checkMerge(merge);
      MergeStars.refuseMissing(merge, CatalogStatements.target(merge.targetTable()));
      return Optional.of(command(RowChange.Kind.MERGE, merge.targetTable(), new RowStatement(
          Optional.of(merge.sourceTable()), merge.mergeCondition(), clauses(merge, merge.matchedActions()),
          clauses(merge, merge.notMatchedActions()), clauses(merge, merge.notMatchedBySourceActions()))));
    }
    return Optional.empty();
  }

  private static LogicalPlan command(RowChange.Kind kind, LogicalPlan target, RowStatement statement) {
    return new RowChangeCommand(kind, relation(target), statement);
  }

  private static DataSourceV2Relation relation(LogicalPlan target) {
    return target instanceof SubqueryAlias alias ? relation(alias.child()) : (DataSourceV2Relation) target;
  }

  private static List<RowStatement.Clause> clauses(MergeIntoTable merge, scala.collection.immutable.Seq<MergeAction> actions) {
    Assignments assignments = new Assignments(relation(merge.targetTable()));
    List<RowStatement.Clause> clauses = new ArrayList<>();
    for (MergeAction action : CollectionConverters.asJava(actions)) {
      Expression condition = action.condition().getOrElse(Literal$.MODULE$::TrueLiteral);
      if (action instanceof UpdateAction update) {
        clauses.add(RowStatement.Clause.update(condition, assignments.ofUpdate(update.assignments())));
      } else if (action instanceof InsertAction insert) {
        clauses.add(RowStatement.Clause.insert(condition, assignments.ofInsert(insert.assignments())));
      } else if (action instanceof DeleteAction) {
        clauses.add(RowStatement.Clause.delete(condition));
      } else {
        throw new ColocationException("this Spark has a clause of MERGE that is not known: " + action).unchecked();
      }
    }
    return clauses;
  }

  /** Completes assignments as Spark does for tables that replace groups of rows: one value for each column, of the column's type. */
  private static final class Assignments {
    private final DataSourceV2Relation target;

    Assignments(DataSourceV2Relation target) {
      this.target = target;
    }

    /** A column that is not assigned keeps its value. */
    List<Expression> ofUpdate(scala.collection.immutable.Seq<Assignment> given) {
      return values("alignUpdateAssignments", given);
    }

    /** A column that is not assigned becomes NULL. */
    List<Expression> ofInsert(scala.collection.immutable.Seq<Assignment> given) {
      return values("alignInsertAssignments", given);
    }

    /** Later versions have more parameters, which give how nested fields are coerced. */
    @SuppressWarnings("unchecked")
    private List<Expression> values(String name, scala.collection.immutable.Seq<Assignment> given) {
      var aligned = (scala.collection.immutable.Seq<Assignment>) Fields.call(AssignmentUtils$.MODULE$, name, target.output(), given);
      return CollectionConverters.asJava(aligned).stream().map(Assignment::value).map(Assignments::withoutName).toList();
    }

    /** Spark names values whose metadata is not the column's, so that they are no plain columns of the source any more. */
    private static Expression withoutName(Expression value) {
      return value instanceof Alias named ? named.child() : value;
    }
  }

  // Spark's own checks, which come later, and find none of these plans any more

  private static void requireDeterministic(LogicalPlan statement) {
    List<String> others = CollectionConverters.asJava(statement.expressions()).stream()
        .filter(expression -> !expression.deterministic()).map(Expression::sql).toList();
    refuseNondeterministic(others);
  }

  private static void refuseNondeterministic(List<String> others) {
    if (!others.isEmpty()) {
      throw ColocationException.unchecked(new AnalysisException(
          "INVALID_NON_DETERMINISTIC_EXPRESSIONS", FilesRelation.scalaMap(Map.of("sqlExprs", String.join(", ", others)))));
    }
  }

  private static void checkMerge(MergeIntoTable merge) {
    Stream.of(merge.matchedActions(), merge.notMatchedBySourceActions())
        .flatMap(actions -> CollectionConverters.asJava(actions).stream()).filter(UpdateAction.class::isInstance)
        .map(update -> CollectionConverters.asJava(((UpdateAction) update).assignments()))
        .forEach(assignments -> refuseNondeterministic(assignments.stream().map(Assignment::value)
            .filter(value -> !value.deterministic()).map(Expression::sql).toList()));
    check("SEARCH", Option.apply(merge.mergeCondition()));
    checkAll(merge.matchedActions());
    checkAll(merge.notMatchedActions());
    checkAll(merge.notMatchedBySourceActions());
  }

  private static void checkAll(scala.collection.immutable.Seq<MergeAction> actions) {
    for (MergeAction action : CollectionConverters.asJava(actions)) {
      check(action instanceof UpdateAction ? "UPDATE" : action instanceof InsertAction ? "INSERT" : "DELETE", action.condition());
    }
  }

  private static void check(String name, Option<Expression> condition) {
    if (condition.isEmpty()) {
      return;
    }
    Expression given = condition.get();
    if (!given.deterministic()) {
      throw ColocationException.unchecked(QueryCompilationErrors$.MODULE$.nonDeterministicMergeCondition(name, given));
    }
    if (SubqueryExpression.hasSubquery(given)) {
      throw ColocationException.unchecked(QueryCompilationErrors$.MODULE$.subqueryNotAllowedInMergeCondition(name, given));
    }
    if (given.find(part -> part instanceof AggregateExpression).isDefined()) {
      throw ColocationException.unchecked(QueryCompilationErrors$.MODULE$.aggregationNotAllowedInMergeCondition(name, given));
    }
  }
}
