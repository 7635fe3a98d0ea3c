package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.InnerLike;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Joins by the column that an outer join keeps where the query names the one that may be missing: in {@code a LEFT JOIN b ON a.k = b.k
 * LEFT JOIN c ON b.k = c.k} the second condition becomes {@code a.k = c.k AND b.k IS NOT NULL}. Both are true for the same rows: where
 * {@code b.k} is not NULL, the first join has found it equal to {@code a.k}. Rows lie by {@code a.k}, so that the second join needs no
 * shuffle. Spark does the same for inner joins and semi-joins, which make the first one an inner join.
 */
public final class ChainedOuterJoins extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return UnknownSpark.orAsPlanned(plan, given -> RowsInPlace.hasBuckets(given)
        ? given.transformUp(Replacing.each(Join.class, ChainedOuterJoins::byKeptColumns)) : given);
  }

  private static LogicalPlan byKeptColumns(Join join) {
    if (join.condition().isEmpty() || join.joinType() instanceof InnerLike || join.joinType() == LeftSemi$.MODULE$) {
      return join;
    }
    LogicalPlan left = join.left();
    LogicalPlan right = join.right();
    List<Expression> conditions = new ArrayList<>();
    for (Expression condition : conjuncts(join.condition().get()).toList()) {
      Optional<Kept> ofLeft = kept(condition, left);
      Optional<Kept> ofRight = ofLeft.isPresent() ? Optional.empty() : kept(condition, right);
      ofLeft.or(() -> ofRight).ifPresentOrElse(found -> conditions.addAll(found.conditions(condition)), () -> conditions.add(condition));
      left = ofLeft.isPresent() ? exposing(left, ofLeft.get().column()) : left;
      right = ofRight.isPresent() ? exposing(right, ofRight.get().column()) : right;
    }
    Join replaced = new Join(left, right, join.joinType(), Option.apply(conditions.stream().reduce(And::new).get()), join.hint());
    if (left == join.left() && right == join.right()) {
      return conditions.equals(conjuncts(join.condition().get()).toList()) ? join : replaced;
    }
    return new Project(named(join.output()), replaced);
  }

  /** @param column what an outer join keeps, equal to {@code missing} wherever that is not NULL */
  private record Kept(Attribute missing, Attribute column) {
    List<Expression> conditions(Expression equality) {
      Expression other = equality.children().head().semanticEquals(missing) ? equality.children().last() : equality.children().head();
      return List.of(new EqualTo(column, other), new IsNotNull(missing));
    }
  }

  private static Stream<Expression> conjuncts(Expression condition) {
    return condition instanceof And and ? Stream.concat(conjuncts(and.left()), conjuncts(and.right())) : Stream.of(condition);
  }

  /** For an equality of a side's column that an outer join below may have left empty. */
  private static Optional<Kept> kept(Expression condition, LogicalPlan side) {
    return condition instanceof EqualTo ? CollectionConverters.asJava(condition.children()).stream()
        .flatMap(one -> one instanceof Attribute column && side.outputSet().contains(column)
            ? kept(column, side).map(found -> new Kept(column, found)).stream() : Stream.empty())
        .findFirst() : Optional.empty();
  }

  /** The column of an outer join's kept side that is equal to a column of its other side. */
  private static Optional<Attribute> kept(Attribute column, LogicalPlan plan) {
    if (plan instanceof Filter filter) {
      return kept(column, filter.child());
    }
    if (plan instanceof Project project) {
      return CollectionConverters.asJava(project.projectList()).stream()
          .filter(named -> named.exprId().equals(column.exprId())).findFirst()
          .flatMap(SortedInput::plainColumn).flatMap(below -> kept(below, project.child()));
    }
    if (!(plan instanceof Join join)) {
      return Optional.empty();
    }
    LogicalPlan from = join.left().outputSet().contains(column) ? join.left() : join.right();
    Optional<LogicalPlan> keeping = keptSide(join);
    if (keeping.isPresent() && keeping.get() != from) {
      return equal(join, column, keeping.get()).map(found -> kept(found, keeping.get()).orElse(found));
    }
    return join.joinType() instanceof InnerLike || keeping.isPresent() ? kept(column, from) : Optional.empty();
  }

  private static Optional<LogicalPlan> keptSide(Join join) {
    JoinType type = join.joinType();
    return type == LeftOuter$.MODULE$ ? Optional.of(join.left())
        : type == RightOuter$.MODULE$ ? Optional.of(join.right()) : Optional.empty();
  }

  private static Optional<Attribute> equal(Join join, Attribute column, LogicalPlan keeping) {
    return join.condition().isEmpty() ? Optional.empty() : conjuncts(join.condition().get())
        .filter(condition -> condition instanceof EqualTo equality
            && (equality.left().semanticEquals(column) || equality.right().semanticEquals(column)))
        .flatMap(condition -> CollectionConverters.asJava(condition.children()).stream())
        .flatMap(one -> one instanceof Attribute other && keeping.outputSet().contains(other) ? Stream.of(other) : Stream.empty())
        .findFirst();
  }

  /** The plan with a column that one of its projections may have left out. */
  private static LogicalPlan exposing(LogicalPlan plan, Attribute column) {
    if (plan.outputSet().contains(column)) {
      return plan;
    }
    List<LogicalPlan> children = CollectionConverters.asJava(plan.children()).stream()
        .map(child -> provides(child, column) ? exposing(child, column) : child).toList();
    LogicalPlan above = plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
    if (!(above instanceof Project project)) {
      return above;
    }
    List<NamedExpression> list = new ArrayList<>(CollectionConverters.asJava(project.projectList()));
    list.add(column);
    return new Project(CollectionConverters.asScala(list).toSeq(), project.child());
  }

  private static boolean provides(LogicalPlan plan, Attribute column) {
    return plan.outputSet().contains(column) || (plan instanceof Filter || plan instanceof Project || plan instanceof Join)
        && CollectionConverters.asJava(plan.children()).stream().anyMatch(child -> provides(child, column));
  }

  private static Seq<NamedExpression> named(Seq<Attribute> columns) {
    return CollectionConverters.asScala(List.<NamedExpression>copyOf(CollectionConverters.asJava(columns))).toSeq();
  }
}
