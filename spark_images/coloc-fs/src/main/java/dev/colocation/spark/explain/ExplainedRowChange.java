package dev.colocation.spark.explain;

import com.fasterxml.jackson.annotation.JsonIgnore;
import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The queries of a statement that changes rows, as planned but not run. Those that write files are planned one by one; they run as one
 * write.
 */
public record ExplainedRowChange(List<Query> queries) {
  /** A command that runs such a statement. */
  public interface Command {
    /** The statement's queries, without running them. */
    ExplainedRowChange explain(SparkSession session);
  }

  /**
   * A query.
   *
   * @param name what its rows are
   * @param reasons why it shuffles or sorts; none where it does neither
   */
  public record Query(@JsonProperty("query") String name, @JsonIgnore SparkPlan plan, int shuffles, int sorts, List<String> reasons) {
    @Override
    public String toString() {
      return name + ": shuffles: " + shuffles + ", sorts: " + sorts
          + (reasons.isEmpty() ? "" : ", reason: " + String.join("; ", reasons));
    }
  }

  /**
   * Why a query may shuffle or sort.
   *
   * @param distributed why the statement brings its rows to other tasks
   * @param required why Spark shuffles for its joins
   * @param sorted why it sorts without a shuffle
   * @param subqueries why subqueries that it computes first shuffle
   */
  public record Causes(String distributed, String required, String sorted, String subqueries) {
    private List<String> of(Nodes found) {
      List<String> causes = new ArrayList<>();
      if (found.shuffles.stream().anyMatch(Nodes::isAskedFor)) {
        causes.add(distributed);
      }
      if (!found.shuffles.stream().allMatch(Nodes::isAskedFor)) {
        causes.add(required);
      }
      if (found.shuffles.isEmpty() && found.sorts > 0) {
        causes.add(sorted);
      }
      if (found.shufflesOfSubqueries > 0) {
        causes.add(subqueries);
      }
      return causes.stream().distinct().toList();
    }
  }

  /** A query with the causes that apply to its plan. */
  public static Query query(String name, SparkPlan plan, Causes causes) {
    Nodes found = new Nodes();
    found.addAll(plan);
    return new Query(name, plan, found.shuffles.size() + found.shufflesOfSubqueries, found.sorts, causes.of(found));
  }

  /** Shuffles and sorts of a plan. */
  private static final class Nodes {
    private final List<ShuffleExchangeLike> shuffles = new ArrayList<>();
    private int shufflesOfSubqueries;
    private int sorts;

    /** Whether the statement asks for it ({@code REBALANCE_…, REPARTITION_…}), not an operator above. */
    static boolean isAskedFor(ShuffleExchangeLike shuffle) {
      return shuffle.shuffleOrigin().toString().startsWith("RE");
    }

    void addAll(SparkPlan node) {
      if (node instanceof AdaptiveSparkPlanExec adaptive) {
        addAll(adaptive.executedPlan());
        return;
      }
      if (node instanceof ShuffleExchangeLike shuffle) {
        shuffles.add(shuffle);
      } else if (node instanceof SortExec) {
        sorts++;
      }
      CollectionConverters.asJava(node.children()).forEach(this::addAll);
      CollectionConverters.asJava(node.subqueries()).forEach(this::addSubquery);
    }

    private void addSubquery(SparkPlan subquery) {
      Nodes found = new Nodes();
      found.addAll(subquery);
      shufflesOfSubqueries += found.shuffles.size() + found.shufflesOfSubqueries;
      sorts += found.sorts;
    }
  }

  public Stream<SparkPlan> plans() {
    return queries.stream().map(Query::plan);
  }

  /** The verdict of each query. */
  @Override
  public String toString() {
    return queries.stream().map(Query::toString).collect(Collectors.joining("; "));
  }
}
