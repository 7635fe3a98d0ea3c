package dev.colocation.spark.explain;

import dev.colocation.spark.explain.PlanNode.Broadcast;
import dev.colocation.spark.explain.PlanNode.Grouping;
import dev.colocation.spark.explain.PlanNode.Grouping.Kind;
import dev.colocation.spark.explain.PlanNode.Join;
import dev.colocation.spark.explain.PlanNode.Key;
import java.util.Collections;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * For each join, group-by and window of a plan: colocated, or why not. Pure.
 *
 * <p>Everything is read from the plan: which tables the rows come from, whether Spark reads them bucket by bucket, and what
 * redistributes them on the way. Invariant: {@code colocate} is true only where the plan shows it: no shuffle between the operator
 * and the bucketed scans of one group's tables that its rows come from.
 */
final class Verdicts {
  private static final String JOIN_KEYS = "the join's keys";
  private static final Map<Kind, String> GROUPING_KEYS = Map.of(Kind.AGGREGATE, "the group-by's keys", Kind.WINDOW, "the window's keys");

  private Verdicts() {}

  /**
   * One join.
   *
   * @param reason empty exactly when {@code colocate} is true
   * @param note qualifies a true verdict
   */
  record JoinReport(
      String join, String type, List<String> keys, List<String> tables, boolean colocate, String reason, String note) {
    /** The join without its verdict. */
    String shown() {
      return join + " " + type + " (" + (keys.isEmpty() ? "no keys" : String.join(" AND ", keys)) + ") of " + String.join(", ", tables);
    }

    @Override
    public String toString() {
      return shown() + ": " + verdict(colocate, reason, note);
    }
  }

  /** One group-by, DISTINCT or window; {@code operator} is Spark's name, e.g. {@code HashAggregate}. */
  record GroupingReport(String operator, List<String> keys, List<String> tables, boolean colocate, String reason, String note) {
    /** The operator without its verdict. */
    String shown() {
      return operator + " (" + (keys.isEmpty() ? "no keys" : String.join(", ", keys)) + ") of " + String.join(", ", tables);
    }

    @Override
    public String toString() {
      return shown() + ": " + verdict(colocate, reason, note);
    }
  }

  private static String verdict(boolean colocate, String reason, String note) {
    return colocate ? "colocate: true" + (note.isEmpty() ? "" : ", note: " + note) : "colocate: false, reason: " + reason;
  }

  /** All joins of a plan, outermost first. */
  static List<JoinReport> joins(PlanNode plan) {
    return plan.walk().flatMap(node -> node.join().map(join -> report(node, join)).stream()).toList();
  }

  /** All group-bys and DISTINCTs, outermost first; an aggregate without GROUP BY has nothing to bring together. */
  static List<GroupingReport> aggregates(PlanNode plan) {
    return groupings(plan, Kind.AGGREGATE).filter(node -> !node.grouping().orElseThrow().keys().isEmpty())
        .map(node -> report(node, node.grouping().orElseThrow())).toList();
  }

  /** All window operators, outermost first. */
  static List<GroupingReport> windows(PlanNode plan) {
    return groupings(plan, Kind.WINDOW).map(node -> report(node, node.grouping().orElseThrow())).toList();
  }

  /** Shuffle Exchanges between a table scan and a join: 0 when all joins are colocated or broadcast. */
  static int exchanges(PlanNode plan) {
    Set<PlanNode> belowJoins = Collections.newSetFromMap(new IdentityHashMap<>());
    plan.walk().filter(node -> node.join().isPresent()).flatMap(node -> node.children().stream()).flatMap(PlanNode::inputs)
        .forEach(belowJoins::add);
    return (int) plan.walk().filter(
        node -> node.isShuffle() && belowJoins.contains(node) && node.inputs().anyMatch(below -> below.scan().isPresent())).count();
  }

  // Joins

  private static JoinReport report(PlanNode node, Join join) {
    Obstacles obstacles = new Obstacles(node.children(), List.of(join.leftKeys(), join.rightKeys()), JOIN_KEYS);
    String reason = reason(node, join, obstacles);
    List<String> keys = IntStream.range(0, join.leftKeys().size())
        .mapToObj(place -> join.leftKeys().get(place).text() + (join.nullSafe().get(place) ? " <=> " : " = ")
            + join.rightKeys().get(place).text()).toList();
    return new JoinReport(
        node.name(), join.type(), keys, Obstacles.tables(node), reason.isEmpty(), reason, reason.isEmpty() ? obstacles.notes() : "");
  }

  /** Why a join is not colocated; empty when it is. */
  private static String reason(PlanNode node, Join join, Obstacles obstacles) {
    if (join.leftKeys().isEmpty()) {
      return !join.hint().isEmpty() && node.name().equals("CartesianProduct") ? Reasons.HAS_HINT + ": " + join.hint()
          : Reasons.INCONSISTENT + ": no equality between columns of both sides";
    }
    if (join.nullAware()) {
      return Reasons.INCONSISTENT + ": NOT IN must know of every NULL of one side; NOT EXISTS joins by key";
    }
    if (join.broadcast().isEmpty()) {
      return obstacles.whyNotTogether();
    }
    String broadcast = join.hint().isEmpty() ? reason(node, join.broadcast().get()) : Reasons.HAS_HINT + ": " + join.hint();
    String besides = obstacles.ofTablesAndKeys();
    return besides.isEmpty() ? broadcast : broadcast + "; besides, " + besides;
  }

  private static String reason(PlanNode node, Broadcast broadcast) {
    List<String> tables = Obstacles.tables(node.children().get(broadcast.side()));
    String size = broadcast.bytes().map(bytes -> "is estimated at " + bytes + " bytes").orElse("is small");
    return Reasons.BROADCAST + ": " + (tables.isEmpty() ? "one side" : String.join(", ", tables)) + " " + size
        + ", the threshold is " + broadcast.thresholdBytes() + " bytes";
  }

  // Group-bys and windows

  /** The last phase of each, which is the one whose keys are the query's. */
  private static Stream<PlanNode> groupings(PlanNode plan, Kind kind) {
    Set<OptionalInt> seen = new HashSet<>();
    return plan.walk().filter(node -> node.grouping().filter(grouping -> grouping.kind() == kind).isPresent()).filter(node -> {
      OptionalInt id = node.grouping().orElseThrow().logicalId();
      return id.isEmpty() || seen.add(id);
    });
  }

  private static GroupingReport report(PlanNode node, Grouping grouping) {
    Obstacles obstacles = new Obstacles(node.children(), List.of(grouping.keys()), GROUPING_KEYS.get(grouping.kind()));
    String reason = grouping.keys().isEmpty()
        ? Reasons.INCONSISTENT + ": no PARTITION BY, so all rows are one group" : obstacles.whyNotTogether();
    return new GroupingReport(
        node.name(), grouping.keys().stream().map(Key::text).toList(), Obstacles.tables(node), reason.isEmpty(), reason,
        reason.isEmpty() ? obstacles.notes() : "");
  }
}
