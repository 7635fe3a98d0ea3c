package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.FilesRelation.ChosenFiles;
import dev.colocation.spark.catalog.RowStatement.Action;
import dev.colocation.spark.catalog.RowStatement.Clause;
import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.cluster.Types;
import dev.colocation.spark.plan.FractionKeys;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.IntFunction;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.CaseWhen;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.plans.ExistenceJoin;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The queries of a statement that changes rows: which rows of which files change, and the rows of the files that replace them.
 *
 * <p>Rows of the target are never moved between tasks where the source has its buckets, or is brought to them: matched rows are
 * found by {@code target LEFT JOIN source}, those to insert by {@code source ANTI JOIN target}. Both keep the buckets and the order
 * of their left side, which a FULL OUTER join does not.
 */
final class RowChangeQueries {
  /** Columns of {@link #changed}. */
  static final String FILE = "file";
  static final String ROW = "row";
  static final String ACTION = "action";

  /** Values of {@link #ACTION}: the row matches, but no clause applies to it. */
  static final int STAYS = 0;
  static final int UPDATED = 1;
  static final int DELETED = 2;

  private static final String FILE_PATH = "file_path";
  private static final String ROW_INDEX = "row_index";

  private final TableLayout layout;
  private final List<AttributeReference> columns;
  private final RowStatement statement;
  private final List<Clause> clauses;

  /**
   * The queries of a statement.
   *
   * @param columns of the target, as the statement names them
   */
  RowChangeQueries(TableLayout layout, List<AttributeReference> columns, RowStatement statement) {
    this.layout = layout;
    this.columns = List.copyOf(columns);
    this.statement = statement;
    clauses = Stream.concat(statement.matched().stream(), statement.notMatchedBySource().stream()).toList();
  }

  // Which rows change

  /** The rows of these files that match or change: {@link #FILE}, {@link #ROW} and {@link #ACTION}. */
  LogicalPlan changed(ChosenFiles files) {
    NamedExpression file = named(field(files.metadata(), FILE_PATH), FILE);
    NamedExpression row = named(field(files.metadata(), ROW_INDEX), ROW);
    if (statement.source().isEmpty()) {
      Clause only = clauses.get(0);
      return new Project(sequence(List.of(file, row, named(integer(code(only)), ACTION))), new Filter(only.condition(), files.plan()));
    }
    boolean needsUnmatched = !statement.notMatchedBySource().isEmpty();
    Rows rows = rows(files.plan(), needsUnmatched ? LeftOuter$.MODULE$ : Inner$.MODULE$);
    Expression codes = cases(numbered(clauses.size(), clause -> true), clause -> integer(code(clauses.get(clause))), rows.action,
        integer(STAYS));
    Expression isWanted = new Not(new EqualTo(rows.action, integer(STAYS)));
    if (statement.takesOneMatchOnly()) {
      isWanted = new Or(isWanted, rows.isMatched);
    }
    return new Project(sequence(List.of(file, row, named(codes, ACTION))), new Filter(isWanted, rows.plan));
  }

  private static int code(Clause clause) {
    return clause.action() == Action.DELETE ? DELETED : UPDATED;
  }

  private static Expression field(AttributeReference struct, String name) {
    return new GetStructField(struct, ((StructType) struct.dataType()).fieldIndex(name), Option.apply(name));
  }

  /**
   * Rows of the target with the columns of the source that they match.
   *
   * @param action the number of the clause that applies, from 1; 0 = none
   * @param isMatched whether a row of the source matches; false where there is no source
   */
  private record Rows(LogicalPlan plan, Attribute action, Expression isMatched) {}

  private Rows rows(LogicalPlan target, JoinType type) {
    LogicalPlan joined = target;
    Expression isMatched = Literal$.MODULE$.TrueLiteral();
    if (statement.source().isPresent() && statement.matched().isEmpty()) {
      // Only whether there is a match counts: a row that matches several times is still one row.
      AttributeReference exists = (AttributeReference) named(Literal$.MODULE$.TrueLiteral(), "exists").toAttribute();
      joined = join(target, statement.source().get(), new ExistenceJoin(exists));
      isMatched = exists;
    } else if (statement.source().isPresent()) {
      Alias present = named(Literal$.MODULE$.TrueLiteral(), "present");
      List<NamedExpression> given = new ArrayList<>(CollectionConverters.asJava(statement.source().get().output()));
      given.add(present);
      joined = join(target, new Project(sequence(given), statement.source().get()), type);
      isMatched = new IsNotNull(type.equals(LeftOuter$.MODULE$) ? present.toAttribute().withNullability(true) : present.toAttribute());
    }
    Expression matched = choice(statement.matched(), 1);
    Expression action = statement.notMatchedBySource().isEmpty() && statement.source().isEmpty() ? matched
        : new If(isMatched, matched, choice(statement.notMatchedBySource(), statement.matched().size() + 1));
    List<NamedExpression> all = new ArrayList<>(CollectionConverters.asJava(joined.output()));
    Alias chosen = named(action, ACTION);
    all.add(chosen);
    return new Rows(new Project(sequence(all), joined), chosen.toAttribute(), isMatched);
  }

  private LogicalPlan join(LogicalPlan left, LogicalPlan right, JoinType type) {
    return new Join(left, right, type, Option.apply(statement.on()), JoinHint.NONE());
  }

  /** The number of the first clause whose condition is true. */
  private static Expression choice(List<Clause> clauses, int first) {
    List<Tuple2<Expression, Expression>> branches = new ArrayList<>();
    for (int place = 0; place < clauses.size(); place++) {
      branches.add(new Tuple2<>(clauses.get(place).condition(), integer(first + place)));
    }
    return branches.isEmpty() ? integer(STAYS) : new CaseWhen(sequence(branches), Option.apply(integer(STAYS)));
  }

  // What becomes of them

  /** The rows of these files that stay in their places, changed or not, without those that are deleted. */
  LogicalPlan staying(ChosenFiles files) {
    Rows rows = rows(files.plan(), LeftOuter$.MODULE$);
    List<Expression> goes = new ArrayList<>(numbered(clauses.size(), clause -> clauses.get(clause).action() == Action.DELETE).stream()
        .map(clause -> is(rows.action, clause + 1)).toList());
    moves(rows.action).ifPresent(goes::add);
    LogicalPlan staying = goes.isEmpty() ? rows.plan : new Filter(new Not(goes.stream().reduce(Or::new).orElseThrow()), rows.plan);
    return shown(place -> decidesPlace(place) ? columns.get(place) : value(place, rows.action), staying);
  }

  /** The updated rows of these files that move to another bucket or partition, or another place in its files; empty when none can. */
  Optional<LogicalPlan> moving(ChosenFiles files) {
    Rows rows = rows(files.plan(), LeftOuter$.MODULE$);
    return moves(rows.action).map(moves -> shown(place -> value(place, rows.action), new Filter(moves, rows.plan)));
  }

  /** The rows of the source that match none of the target, as the clauses insert them. */
  LogicalPlan inserted(LogicalPlan target) {
    List<Clause> inserts = statement.notMatched();
    boolean mayFail = inserts.stream().anyMatch(clause -> !neverFails(clause.condition()));
    Candidates candidates = mayFail ? withMatches(target) : withoutMatches(target);
    if (inserts.size() == 1 && !mayFail) {
      return shown(place -> checked(place, inserts.get(0).values().get(place)), new Filter(inserts.get(0).condition(), candidates.plan));
    }
    List<NamedExpression> all = new ArrayList<>(CollectionConverters.asJava(candidates.plan.output()));
    Alias chosen = named(new If(candidates.isUnmatched, choice(inserts, 1), integer(STAYS)), ACTION);
    all.add(chosen);
    Attribute action = chosen.toAttribute();
    LogicalPlan inserted = new Filter(new Not(new EqualTo(action, integer(STAYS))), new Project(sequence(all), candidates.plan));
    return shown(place -> inserted(place, inserts, action), inserted);
  }

  /** Rows of the source that may be inserted. */
  private record Candidates(LogicalPlan plan, Expression isUnmatched) {}

  private Candidates withoutMatches(LogicalPlan target) {
    return new Candidates(join(statement.source().orElseThrow(), target, LeftAnti$.MODULE$), Literal$.MODULE$.TrueLiteral());
  }

  /**
   * All rows of the source, and whether they match. Spark computes conditions of the source alone before an ANTI join, also for rows
   * that match; there a condition may fail, as by a division by zero.
   */
  private Candidates withMatches(LogicalPlan target) {
    Alias present = named(Literal$.MODULE$.TrueLiteral(), "present");
    List<NamedExpression> columnsAndPresent = new ArrayList<>(CollectionConverters.asJava(target.output()));
    columnsAndPresent.add(present);
    LogicalPlan joined = join(
        statement.source().orElseThrow(), new Project(sequence(columnsAndPresent), target), LeftOuter$.MODULE$);
    return new Candidates(joined, new IsNull(present.toAttribute().withNullability(true)));
  }

  /** Whether an expression has a value for every row: comparisons of columns and constants, and what combines them. */
  static boolean neverFails(Expression condition) {
    return (condition instanceof And || condition instanceof Or || condition instanceof Not || condition instanceof IsNull
        || condition instanceof IsNotNull || condition instanceof In || condition instanceof BinaryComparison
        || condition instanceof Attribute || condition instanceof Literal)
        && CollectionConverters.asJava(condition.children()).stream().allMatch(RowChangeQueries::neverFails);
  }

  private Expression inserted(int place, List<Clause> inserts, Attribute action) {
    List<Expression> values = inserts.stream().map(clause -> clause.values().get(place)).toList();
    Expression last = checked(place, values.get(values.size() - 1));
    boolean isSame = values.stream().allMatch(values.get(0)::semanticEquals);
    return isSame ? last
        : cases(numbered(values.size() - 1, clause -> true), clause -> checked(place, values.get(clause)), action, last);
  }

  /** The target's columns with these values, by their places. */
  private LogicalPlan shown(IntFunction<Expression> values, LogicalPlan rows) {
    List<NamedExpression> named = new ArrayList<>();
    for (int place = 0; place < columns.size(); place++) {
      named.add(named(values.apply(place), columns.get(place).name()));
    }
    return new Project(sequence(named), rows);
  }

  /** A column's value after the clause that applies; its own where none does, or it does not change the column. */
  private Expression value(int place, Attribute action) {
    return cases(changing(place), clause -> checked(place, clauses.get(clause).values().get(place)), action, columns.get(place));
  }

  /** The clauses that change a column. */
  private List<Integer> changing(int place) {
    return numbered(clauses.size(), clause -> clauses.get(clause).action() == Action.UPDATE && !isKept(clauses.get(clause), place));
  }

  private static List<Integer> numbered(int clauses, IntPredicate isOne) {
    return IntStream.range(0, clauses).filter(isOne).boxed().toList();
  }

  private static Expression cases(List<Integer> clauses, IntFunction<Expression> value, Attribute action, Expression otherwise) {
    if (clauses.isEmpty()) {
      return otherwise;
    }
    List<Tuple2<Expression, Expression>> branches =
        clauses.stream().map(clause -> new Tuple2<>(is(action, clause + 1), value.apply(clause))).toList();
    return new CaseWhen(sequence(branches), Option.apply(otherwise));
  }

  private static Expression is(Attribute action, int number) {
    return new EqualTo(action, integer(number));
  }

  /** A new value, padded and checked against the length that its column declares. */
  private Expression checked(int place, Expression value) {
    String type = layout.column(columns.get(place).name()).type();
    return Types.hasLength(type) ? CharVarcharUtils.stringLengthCheck(value, Types.declared(type)) : value;
  }

  // Where rows lie

  /** Whether a column decides in which file, and where in it, a row is. */
  private boolean decidesPlace(int place) {
    String name = columns.get(place).name();
    return Stream.of(layout.bucketedBy(), layout.partitionedBy(), layout.sortedInFiles())
        .flatMap(List::stream).anyMatch(name::equalsIgnoreCase);
  }

  /**
   * Whether the clause that applies moves the row; empty when none can. Values are compared behind the choice of the clause: Spark
   * computes conditions of the target alone for all of its rows, also where a value of another clause fails, as by a division by zero.
   */
  private Optional<Expression> moves(Attribute action) {
    List<Expression> moves = new ArrayList<>();
    for (int place = 0; place < columns.size(); place++) {
      List<Integer> changing = changing(place);
      if (decidesPlace(place) && !changing.isEmpty()) {
        AttributeReference column = columns.get(place);
        moves.add(isComparedByBytes(column.dataType()) ? new Not(new EqualNullSafe(column, value(place, action)))
            : changing.stream().<Expression>map(clause -> is(action, clause + 1)).reduce(Or::new).orElseThrow());
      }
    }
    return moves.stream().reduce(Or::new);
  }

  /** Whether an update leaves a column as it is: it assigns the column itself, or what the matching row has as its equal. */
  private boolean isKept(Clause update, int place) {
    Expression value = update.values().get(place);
    AttributeReference column = columns.get(place);
    return value.semanticEquals(column) || statement.source().isPresent() && isComparedByBytes(column.dataType())
        && statement.matched().contains(update)
        && conjuncts(statement.on()).anyMatch(equal -> equals(equal, column, value));
  }

  private static boolean equals(Expression condition, Expression one, Expression other) {
    if (!(condition instanceof EqualTo || condition instanceof EqualNullSafe)) {
      return false;
    }
    List<Expression> sides = CollectionConverters.asJava(condition.children());
    return sides.get(0).semanticEquals(one) && sides.get(1).semanticEquals(other)
        || sides.get(1).semanticEquals(one) && sides.get(0).semanticEquals(other);
  }

  static Stream<Expression> conjuncts(Expression condition) {
    return condition instanceof And and ? Stream.concat(conjuncts(and.left()), conjuncts(and.right())) : Stream.of(condition);
  }

  /** Whether equal values are the same bytes: not so for 0.0 and -0.0, and texts of collations. */
  static boolean isComparedByBytes(DataType type) {
    return !(FractionKeys.isFraction(type) || type instanceof StructType)
        && !(type instanceof StringType text && !text.supportsBinaryEquality());
  }

  private static Expression integer(int value) {
    return new Literal(value, DataTypes.IntegerType);
  }

  private static Alias named(Expression value, String name) {
    return FilesRelation.named(value, name);
  }

  private static <T> scala.collection.immutable.Seq<T> sequence(List<T> list) {
    return FilesRelation.sequence(list);
  }
}
