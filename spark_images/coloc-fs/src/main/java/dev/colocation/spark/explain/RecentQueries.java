package dev.colocation.spark.explain;

import dev.colocation.spark.explain.PlanNode.Scan;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps the verdicts of the queries on colocated tables that ended last, and logs each. Spark calls it on one thread; others read it.
 */
public final class RecentQueries extends SparkListener {
  private static final Logger LOG = LoggerFactory.getLogger(RecentQueries.class);
  private static final int MAX_QUERIES = 100;
  private static final int MAX_RUNNING = 1000;

  private final Map<Long, SparkListenerSQLExecutionStart> running = new LinkedHashMap<>();
  private final Deque<Query> ended = new ArrayDeque<>();

  /**
   * A query that has ended.
   *
   * @param execution its number in the SQL tab
   * @param description Spark's, e.g. the statement or where the program called it
   * @param tables the colocated tables that it read, each once
   * @param verdicts on its joins, group-bys and windows; none if it has none of them
   */
  public record Query(
      long execution, String description, Instant endedAt, Duration took, List<String> tables, List<Verdict> verdicts) {}

  /** A verdict as {@code explain} gives it. */
  public record Verdict(boolean colocate, String text) {}

  /** The newest first. */
  public synchronized List<Query> newestFirst() {
    return List.copyOf(ended);
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SparkListenerSQLExecutionStart start) {
      running.put(start.executionId(), start);
      if (running.size() > MAX_RUNNING) {  // the ends of the oldest were lost: Spark drops events when it is overloaded
        running.remove(running.keySet().iterator().next());
      }
    } else if (event instanceof SparkListenerSQLExecutionEnd end && end.qe() != null) {
      SparkListenerSQLExecutionStart start = running.remove(end.executionId());
      if (start != null) {
        keep(start, end);
      }
    }
  }

  private void keep(SparkListenerSQLExecutionStart start, SparkListenerSQLExecutionEnd end) {
    PlanNode plan;
    try {
      plan = executed(end.qe());
    } catch (Exception error) {  // a query that failed may have no plan; Scala throws checked exceptions that it does not declare
      LOG.debug("query {} has no plan to give verdicts on", end.executionId(), error);
      return;
    }
    List<String> tables = plan.walk().flatMap(node -> node.scan().stream()).flatMap((Scan scan) -> scan.known().stream())
        .map(KnownTable::name).distinct().toList();
    if (tables.isEmpty()) {
      return;
    }
    Duration took = Duration.ofMillis(Math.max(0, end.time() - start.time()));
    Query query = new Query(end.executionId(), start.description(), Instant.ofEpochMilli(end.time()), took, tables, verdicts(plan));
    LOG.info("{}", QueryLine.of(query));
    add(query);
  }

  private static PlanNode executed(QueryExecution execution) {
    return new PlanReader(execution.sparkSession().sessionState().conf().autoBroadcastJoinThreshold()).read(execution.executedPlan());
  }

  private static List<Verdict> verdicts(PlanNode plan) {
    Stream<Verdict> joins = Verdicts.joins(plan).stream().map(one -> new Verdict(one.colocate(), one.toString()));
    Stream<Verdict> others = Stream.of(Verdicts.aggregates(plan), Verdicts.windows(plan)).flatMap(List::stream)
        .map(one -> new Verdict(one.colocate(), one.toString()));
    return Stream.concat(joins, others).toList();
  }

  private synchronized void add(Query query) {
    ended.addFirst(query);
    if (ended.size() > MAX_QUERIES) {
      ended.removeLast();
    }
  }
}
