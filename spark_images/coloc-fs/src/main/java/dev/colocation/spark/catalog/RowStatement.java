package dev.colocation.spark.catalog;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime$;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What a statement does with the rows of its target.
 *
 * @param source of a MERGE; empty for UPDATE and DELETE, which have one matched clause
 * @param on the condition by which a row of the target matches one of the source
 * @param matched what becomes of rows that match
 * @param notMatched what becomes of rows of the source that match none
 * @param notMatchedBySource what becomes of rows of the target that match none
 */
record RowStatement(
    Optional<LogicalPlan> source, Expression on, List<Clause> matched, List<Clause> notMatched, List<Clause> notMatchedBySource) {

  /** What a clause does with a row. */
  enum Action { UPDATE, DELETE, INSERT }

  /**
   * A clause; of several, the first one whose condition is true applies to a row.
   *
   * @param values one for each column of the target, in their order; none for a delete
   */
  record Clause(Action action, Expression condition, List<Expression> values) {
    static Clause update(Expression condition, List<Expression> values) {
      return new Clause(Action.UPDATE, condition, values);
    }

    static Clause insert(Expression condition, List<Expression> values) {
      return new Clause(Action.INSERT, condition, values);
    }

    static Clause delete(Expression condition) {
      return new Clause(Action.DELETE, condition, List.of());
    }
  }

  RowStatement {
    matched = List.copyOf(matched);
    notMatched = List.copyOf(notMatched);
    notMatchedBySource = List.copyOf(notMatchedBySource);
  }

  static RowStatement delete(Expression condition) {
    return ofTarget(Clause.delete(condition));
  }

  static RowStatement update(Expression condition, List<Expression> values) {
    return ofTarget(Clause.update(condition, values));
  }

  private static RowStatement ofTarget(Clause clause) {
    return new RowStatement(Optional.empty(), Literal$.MODULE$.TrueLiteral(), List.of(clause), List.of(), List.of());
  }

  RowStatement withSource(LogicalPlan other) {
    return new RowStatement(Optional.of(other), on, matched, notMatched, notMatchedBySource);
  }

  /** The queries within its conditions and values. */
  Stream<LogicalPlan> subqueries() {
    return Stream.concat(Stream.of(on), clauses().flatMap(clause -> Stream.concat(Stream.of(clause.condition()), clause.values().stream())))
        .flatMap(RowStatement::subqueries);
  }

  private static Stream<LogicalPlan> subqueries(Expression expression) {
    Stream<LogicalPlan> own = expression instanceof SubqueryExpression subquery ? Stream.of(subquery.plan()) : Stream.of();
    return Stream.concat(own, CollectionConverters.asJava(expression.children()).stream().flatMap(RowStatement::subqueries));
  }

  /**
   * Whether a row of the target that matches several rows of the source is an error, as in Spark: not where all such rows are
   * deleted.
   */
  boolean takesOneMatchOnly() {
    boolean deletesAll = matched.size() == 1 && matched.get(0).action() == Action.DELETE
        && matched.get(0).condition().equals(Literal$.MODULE$.TrueLiteral());
    return source.isPresent() && !matched.isEmpty() && !deletesAll;
  }

  /** The same statement at one time: {@code current_timestamp()} and its like are that time in all of its queries. */
  RowStatement atOneTime(LogicalPlan target) {
    List<Expression> all = new ArrayList<>(List.of(on));
    clauses().forEach(clause -> {
      all.add(clause.condition());
      all.addAll(clause.values());
    });
    List<NamedExpression> named = all.stream().<NamedExpression>map(value -> FilesRelation.named(value, "value")).toList();
    LogicalPlan rows = source.<LogicalPlan>map(
        other -> new Join(target, other, Inner$.MODULE$, Option.empty(), JoinHint.NONE())).orElse(target);
    Project fixed = (Project) ComputeCurrentTime$.MODULE$.apply(new Project(FilesRelation.sequence(named), rows));
    List<Expression> values = new ArrayList<>(CollectionConverters.asJava(fixed.projectList()).stream()
        .map(one -> ((Alias) one).child()).toList());
    Optional<LogicalPlan> other = source.map(given -> ((Join) fixed.child()).right());
    Expression condition = values.remove(0);
    return new RowStatement(
        other, condition, taken(matched, values), taken(notMatched, values), taken(notMatchedBySource, values));
  }

  private Stream<Clause> clauses() {
    return Stream.of(matched, notMatched, notMatchedBySource).flatMap(List::stream);
  }

  /** The clauses with the next of these expressions, which are taken out of the list. */
  private static List<Clause> taken(List<Clause> clauses, List<Expression> values) {
    List<Clause> changed = new ArrayList<>();
    for (Clause clause : clauses) {
      Expression condition = values.remove(0);
      List<Expression> own = values.subList(0, clause.values().size());
      changed.add(new Clause(clause.action(), condition, List.copyOf(own)));
      own.clear();
    }
    return changed;
  }
}
