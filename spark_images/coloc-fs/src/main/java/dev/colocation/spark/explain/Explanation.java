package dev.colocation.spark.explain;

import com.fasterxml.jackson.annotation.JsonIgnore;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.colocation.spark.explain.Verdicts.GroupingReport;
import dev.colocation.spark.explain.Verdicts.JoinReport;
import dev.colocation.spark.fs.ReadMetrics;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.command.ExecutedCommandExec;
import org.apache.spark.sql.execution.command.ExplainCommand;

/**
 * What {@code explain} reports on a query or statement.
 *
 * @param exchanges shuffles between a table scan and a join
 * @param isFinal the plan is the one that was executed, or one that execution cannot change
 * @param changes the queries of a statement that changes single rows and has not run
 */
public record Explanation(
    @JsonIgnore String plan, List<JoinReport> joins, List<GroupingReport> aggregates, List<GroupingReport> windows, int exchanges,
    @JsonProperty("final") boolean isFinal, List<ExplainedRowChange.Query> changes) {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String NOT_FINAL =
      "The query has not run: Spark may still change the plan. Run it, then explain it again.";
  private static final String CHANGE_NOT_RUN =
      "The statement has not run. It reads and writes those files only in which rows may change.";

  /** The plan of a query; once the query has run, the plan that was executed. */
  public static Explanation of(QueryExecution execution) {
    List<ExplainedRowChange.Query> changes = changes(execution);
    SparkPlan executed = execution.executedPlan();
    PlanReader reader = new PlanReader(execution.sparkSession().sessionState().conf().autoBroadcastJoinThreshold());
    List<PlanNode> plans = (changes.isEmpty() ? Stream.of(executed) : changes.stream().map(ExplainedRowChange.Query::plan))
        .map(reader::read).toList();
    boolean isFinal = changes.isEmpty() && !(executed instanceof AdaptiveSparkPlanExec adaptive && !adaptive.isFinalPlan());
    return new Explanation(
        executed.toString().stripTrailing(), all(plans, Verdicts::joins), all(plans, Verdicts::aggregates),
        all(plans, Verdicts::windows), plans.stream().mapToInt(Verdicts::exchanges).sum(), isFinal, changes);
  }

  /** The plan of a statement in SQL, which is not run, also if it is a command; {@code EXPLAIN} before it changes nothing. */
  public static Explanation of(SparkSession session, String statement) throws Exception {
    LogicalPlan parsed = session.sessionState().sqlParser().parsePlan(statement);
    LogicalPlan statementItself = parsed instanceof ExplainCommand explain ? explain.logicalPlan() : parsed;
    return of(session.sessionState().executePlan(statementItself, CommandExecutionMode.SKIP()));
  }

  /** None of a statement that has run: what was committed since might make planning fail. */
  private static List<ExplainedRowChange.Query> changes(QueryExecution execution) {
    return execution.executedPlan() instanceof ExecutedCommandExec command && command.cmd() instanceof ExplainedRowChange.Command change
        ? change.explain(execution.sparkSession()).queries() : List.of();
  }

  private static <T> List<T> all(List<PlanNode> plans, Function<PlanNode, List<T>> verdicts) {
    return plans.stream().map(verdicts).flatMap(List::stream).toList();
  }

  /** For programs: all but the plan's text. */
  public String json() {
    return JSON.valueToTree(this).toString();
  }

  /** For people: Spark's plan, a line per verdict, and what the application has read so far. */
  public String text() {
    List<String> lines = new ArrayList<>(List.of("== Physical Plan ==", plan, "", "== Colocation =="));
    if (joins.isEmpty()) {
      lines.add("no join");
    }
    Stream.of(joins, aggregates, windows, changes).flatMap(List::stream).map(Object::toString).forEach(lines::add);
    if (!isFinal) {
      lines.add(changes.isEmpty() ? NOT_FINAL : CHANGE_NOT_RUN);
    }
    long[] read = ReadMetrics.totals();
    lines.add("Read so far by this application: " + read[0] + " bytes locally, " + read[1] + " remotely");
    return String.join("\n", lines);
  }

  /** A verdict as a row of a table, see {@link #rows}. */
  public record Row(String operator, boolean colocate, String reason) {}

  /**
   * Joins, outermost first, group-bys, windows, and the queries of a statement that changes rows: whether each needs no shuffle, and
   * why not, or what qualifies that.
   */
  public List<Row> rows() {
    Stream<Row> joined = joins.stream().map(one -> new Row(one.shown(), one.colocate(), one.reason() + one.note()));
    Stream<Row> grouped = Stream.concat(aggregates.stream(), windows.stream())
        .map(one -> new Row(one.shown(), one.colocate(), one.reason() + one.note()));
    Stream<Row> changed = changes.stream().map(one -> new Row(one.name(), one.shuffles() == 0, String.join("; ", one.reasons())));
    return Stream.of(joined, grouped, changed).flatMap(rows -> rows).toList();
  }
}
