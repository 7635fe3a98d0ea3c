package dev.colocation.spark.explain;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import dev.colocation.spark.explain.PlanNode.Broadcast;
import dev.colocation.spark.explain.PlanNode.Grouping;
import dev.colocation.spark.explain.PlanNode.Grouping.Kind;
import dev.colocation.spark.explain.PlanNode.Join;
import dev.colocation.spark.explain.PlanNode.Key;
import dev.colocation.spark.explain.PlanNode.Scan;
import dev.colocation.spark.explain.PlanNode.Scan.Coalesced;
import dev.colocation.spark.explain.Verdicts.GroupingReport;
import dev.colocation.spark.explain.Verdicts.JoinReport;
import java.math.BigInteger;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Verdicts on hand-made plans: true only where the plan shows it, otherwise the reason. */
final class VerdictsTest {
  private static final PlanNode ORDERS = scan("shop.orders", "shop/sales", Map.of(1L, "o_key", 2L, "o_date"), "o_key");
  private static final PlanNode LINES = scan("shop.lines", "shop/sales", Map.of(11L, "l_key", 12L, "l_date"), "l_key");
  private static final PlanNode DOWN =
      scan("shop.down", new KnownTable("shop.down", "shop/sales", false, "group is not stable: NodeGone", List.of("d_key")), false,
          Map.of(31L, "d_key"));
  private static final PlanNode PLAIN = node("FileSourceScan",
      Optional.of(new Scan("file:/tmp/x", "", false, Map.of(41L, "k"), Optional.empty(), Optional.empty(), Optional.empty())));
  private static final PlanNode SOURCE = node("MergeSource");
  private static final PlanNode PARTIAL = node("HashAggregate", ORDERS);

  // Plans

  private static PlanNode node(String name, PlanNode... children) {
    return new PlanNode(name, List.of(children), List.of(), Optional.empty(), Optional.empty(), Optional.empty(), Map.of(), "", false);
  }

  private static PlanNode node(String name, Optional<Scan> scan) {
    return new PlanNode(name, List.of(), List.of(), scan, Optional.empty(), Optional.empty(), Map.of(), "", false);
  }

  private static PlanNode scan(String name, String group, Map<Long, String> columns, String... bucketedBy) {
    return scan(name, new KnownTable(name, group, true, "", List.of(bucketedBy)), true, columns);
  }

  /** The scan of a table as the catalog planned it. */
  private static PlanNode scan(String name, KnownTable known, boolean isBucketed, Map<Long, String> columns) {
    return node("FileSourceScan", Optional.of(new Scan(
        "coloc://" + name + "/data", name, isBucketed, columns, Optional.of(known), Optional.empty(), Optional.empty())));
  }

  private static PlanNode shuffled(PlanNode child) {
    return shuffled(child, "ENSURE_REQUIREMENTS");
  }

  private static PlanNode shuffled(PlanNode child, String origin) {
    return new PlanNode("ShuffleExchange", List.of(child), List.of(), Optional.empty(), Optional.empty(), Optional.empty(), Map.of(),
        origin, false);
  }

  private static PlanNode with(String name, PlanNode child, Map<Long, OptionalLong> aliases, boolean isReused) {
    return new PlanNode(
        name, List.of(child), List.of(), Optional.empty(), Optional.empty(), Optional.empty(), aliases, "", isReused);
  }

  private static PlanNode project(PlanNode child, long id, OptionalLong before) {
    return with("Project", child, Map.of(id, before), false);
  }

  private static PlanNode filter(PlanNode child, PlanNode subquery) {
    return new PlanNode("Filter", List.of(child), List.of(subquery), Optional.empty(), Optional.empty(), Optional.empty(), Map.of(),
        "", false);
  }

  private static Key key(String text, long column) {
    return new Key(text, OptionalLong.of(column));
  }

  private static Key computed(String text) {
    return new Key(text, OptionalLong.empty());
  }

  private static PlanNode joined(String name, PlanNode left, PlanNode right, Join join) {
    return new PlanNode(name, List.of(left, right), List.of(), Optional.empty(), Optional.of(join), Optional.empty(), Map.of(), "", false);
  }

  private static PlanNode merged(PlanNode left, PlanNode right, List<Key> leftKeys, List<Key> rightKeys) {
    return joined("SortMergeJoin", node("Sort", left), node("Sort", right),
        new Join("Inner", leftKeys, rightKeys, leftKeys.stream().map(key -> false).toList(), "", Optional.empty(), false));
  }

  private static PlanNode merged(PlanNode left, PlanNode right, Key leftKey, Key rightKey) {
    return merged(left, right, List.of(leftKey), List.of(rightKey));
  }

  private static PlanNode onKey(PlanNode left, PlanNode right) {
    return merged(left, right, key("o_key", 1), key("l_key", 11));
  }

  private static PlanNode broadcast(PlanNode left, PlanNode right, Key rightKey, String hint, boolean isNullAware) {
    Broadcast copied = new Broadcast(1, Optional.of(BigInteger.valueOf(4096)), 10_000);
    return joined("BroadcastHashJoin", left, node("BroadcastExchange", right),
        new Join("Inner", List.of(key("o_key", 1)), List.of(rightKey), List.of(false), hint, Optional.of(copied), isNullAware));
  }

  private static PlanNode grouped(PlanNode child, Kind kind, Key... keys) {
    return new PlanNode("HashAggregate", List.of(child), List.of(), Optional.empty(), Optional.empty(),
        Optional.of(new Grouping(kind, List.of(keys), OptionalInt.of(7))), Map.of(), "", false);
  }

  private static JoinReport only(PlanNode plan) {
    List<JoinReport> reports = Verdicts.joins(plan);
    assertEquals(1, reports.size());
    return reports.get(0);
  }

  private static List<Boolean> colocated(PlanNode plan) {
    return Verdicts.joins(plan).stream().map(JoinReport::colocate).toList();
  }

  // Joins

  static Stream<Arguments> colocatedJoins() {
    return Stream.of(
        arguments("scans", onKey(ORDERS, LINES)),
        arguments("aggregated", onKey(node("HashAggregate", ORDERS), node("Filter", LINES))),
        arguments("renamed", merged(ORDERS, project(LINES, 13, OptionalLong.of(11)), key("o_key", 1), key("k", 13))));
  }

  /** Bucketed scans of one group under a join without a shuffle. */
  @ParameterizedTest(name = "{0}")
  @MethodSource("colocatedJoins")
  void colocated(String what, PlanNode plan) {
    assertEquals("SortMergeJoin Inner (o_key = " + (what.equals("renamed") ? "k" : "l_key") + ") of shop.orders, shop.lines: colocate: true",
        only(plan).toString());
    assertEquals(0, Verdicts.exchanges(plan));
  }

  static Stream<Arguments> shuffledJoins() {
    PlanNode other = scan("shop.other", "shop/elsewhere", Map.of(11L, "x_key"), "x_key");
    return Stream.of(
        arguments("two groups", onKey(shuffled(ORDERS), shuffled(other)), 2,
            "Tables are not in the same group: shop.orders is in shop/sales, shop.other is in shop/elsewhere"),
        arguments("a plain table", onKey(ORDERS, shuffled(PLAIN)), 1,
            "Tables are not in the same group: file:/tmp/x is not a ColocatedTable"),
        arguments("no table", onKey(ORDERS, shuffled(node("Range"))), 0,
            "Tables are not in the same group: rows of one side (Range) are not of a ColocatedTable"),
        arguments("the source of a MERGE", onKey(ORDERS, SOURCE), 0,
            "The src data has been redistributed: the source is computed first"),
        arguments("not stable", onKey(shuffled(ORDERS), shuffled(DOWN)), 2, "group is not stable: NodeGone"),
        arguments("other keys", merged(shuffled(ORDERS), shuffled(LINES), key("o_date", 2), key("l_date", 12)), 2,
            "Inconsistent distribution of table and queries: shop.orders is bucketed by (o_key), "
                + "the join's keys are (shop.orders.o_date)"),
        arguments("an expression", merged(shuffled(ORDERS), LINES, computed("(o_key + 1)"), key("l_key", 11)), 1,
            "Src column hash been transformed by expr: (o_key + 1)"),
        arguments("an expression in a subquery",
            merged(ORDERS, shuffled(project(LINES, 13, OptionalLong.empty())), key("o_key", 1), key("k", 13)), 1,
            "Src column hash been transformed by expr: k"),
        arguments("no equality", merged(shuffled(ORDERS), shuffled(LINES), List.of(), List.of()), 2,
            "Inconsistent distribution of table and queries: no equality between columns of both sides"),
        arguments("buckets unused", onKey(ORDERS, scan("shop.lines", LINES.scan().orElseThrow().known().orElseThrow(), false,
                LINES.scan().orElseThrow().columns())), 0,
            "The src data has been redistributed: Spark reads shop.lines without buckets"),
        arguments("a broadcast", broadcast(ORDERS, LINES, key("l_key", 11), "", false), 0,
            "Broadcast is cheaper: shop.lines is estimated at 4096 bytes, the threshold is 10000 bytes"),
        arguments("a broadcast of a plain table", broadcast(ORDERS, PLAIN, key("k", 41), "", false), 0,
            "Broadcast is cheaper: file:/tmp/x is estimated at 4096 bytes, the threshold is 10000 bytes; besides, "
                + "Tables are not in the same group: file:/tmp/x is not a ColocatedTable"),
        arguments("a hint", broadcast(ORDERS, LINES, key("l_key", 11), "broadcast", false), 0, "Has join hint: broadcast"),
        arguments("NOT IN needs all rows of one side everywhere", broadcast(ORDERS, LINES, key("l_key", 11), "", true), 0,
            "Inconsistent distribution of table and queries: NOT IN must know of every NULL of one side; NOT EXISTS joins by key"),
        arguments("limits", onKey(node("TakeOrderedAndProject", ORDERS), node("TakeOrderedAndProject", LINES)), 0,
            "The src data has been redistributed: a limit brings all rows into one partition"),
        arguments("coalesced", onKey(node("Coalesce", ORDERS), node("Coalesce", LINES)), 0,
            "The src data has been redistributed: coalesce merges partitions"),
        arguments("repartitioned", onKey(shuffled(ORDERS, "REPARTITION_BY_COL"), LINES), 1,
            "The src data has been redistributed: the query asks for it (REPARTITION_BY_COL)"),
        arguments("repartitioned, so that buckets are of no use", onKey(shuffled(scan("shop.orders",
                ORDERS.scan().orElseThrow().known().orElseThrow(), false, ORDERS.scan().orElseThrow().columns()), "REPARTITION_BY_COL"),
                LINES), 1,
            "The src data has been redistributed: the query asks for it (REPARTITION_BY_COL)"),
        arguments("a union", onKey(shuffled(node("Union", ORDERS, ORDERS)), LINES), 1,
            "The src data has been redistributed: the inputs of a union are not all in buckets of its keys"));
  }

  /** Everything else has a reason, in Doris's words. */
  @ParameterizedTest(name = "{0}")
  @MethodSource("shuffledJoins")
  void notColocated(String what, PlanNode plan, int exchanges, String reason) {
    assertEquals(reason, only(plan).reason());
    assertTrue(only(plan).toString().endsWith("colocate: false, reason: " + reason));
    assertEquals(exchanges, Verdicts.exchanges(plan));
  }

  /** Each join has its own verdict: the inner one is colocated, the outer one is not. */
  @Test
  void threeTablesOfWhichOneIsShuffled() {
    PlanNode outer = merged(shuffled(onKey(ORDERS, LINES)), LINES, key("o_date", 2), key("l_key", 11));
    assertEquals(List.of(false, true), colocated(outer));
    String reason = Verdicts.joins(outer).get(0).reason();
    assertTrue(reason.contains("shop.orders is bucketed by (o_key), shop.lines is bucketed by (l_key)"), reason);
    assertEquals(1, Verdicts.exchanges(outer));
  }

  /** Rows without a partner have no key of the other side. */
  @Test
  void theOtherSidesKeyOfAnOuterJoin() {
    PlanNode left = joined("SortMergeJoin", ORDERS, LINES,
        new Join("LeftOuter", List.of(key("o_key", 1)), List.of(key("l_key", 11)), List.of(false), "", Optional.empty(), false));
    PlanNode again = scan("shop.lines", "shop/sales", Map.of(51L, "l_key"), "l_key");
    assertEquals(
        "The src data has been redistributed: an outer join leaves this key NULL where it finds no row",
        Verdicts.joins(merged(shuffled(left), again, key("l_key", 11), key("l", 51))).get(0).reason());
  }

  /** orders = lines on the key, then lines.key = lines.key: any bucket key of a side is as good. */
  @Test
  void aKeyOfTheOtherTableOfAColocatedSideWillDo() {
    PlanNode again = scan("shop.lines", "shop/sales", Map.of(51L, "l_key"), "l_key");
    assertEquals(List.of(true, true), colocated(merged(onKey(ORDERS, LINES), again, key("l_key", 11), key("l", 51))));
  }

  /** Both keys contain the bucket key, but compare its columns crosswise: rows of equal keys differ in bucket. */
  @Test
  void bucketColumnsInAnotherOrder() {
    PlanNode left = scan("shop.a", "shop/g", Map.of(1L, "x", 2L, "y"), "x", "y");
    PlanNode right = scan("shop.b", "shop/g", Map.of(3L, "x", 4L, "y"), "x", "y");
    String reason = only(merged(
        shuffled(left), shuffled(right), List.of(key("x", 1), key("y", 2)), List.of(key("y", 4), key("x", 3)))).reason();
    assertEquals("Inconsistent distribution of table and queries: columns of the bucket keys are compared out of order: "
        + "shop.a.x = shop.b.y, shop.a.y = shop.b.x", reason);
  }

  /** {@code whenUnstable=colocated}: the plan is bucketed, and the group's state is a note of the verdict. */
  @Test
  void aTrueVerdictCanHaveANote() {
    String note = "group is not stable: NodeGone; live";
    PlanNode lines = scan("shop.lines", new KnownTable("shop.lines", "shop/sales", true, note, List.of("l_key")), true, Map.of(11L, "l_key"));
    assertTrue(only(onKey(ORDERS, lines)).toString().endsWith("colocate: true, note: " + note));
  }

  /** A table of more buckets is read by fewer, in ranges of the key, for a join with one that has so many. */
  @Test
  void bucketsThatAreReadOtherwiseAreANote() {
    KnownTable known = new KnownTable("shop.lines", "shop/sales", true, "", List.of("l_key"));
    PlanNode lines = node("FileSourceScan", Optional.of(new Scan(
        "coloc://shop.lines/data", "", true, Map.of(11L, "l_key"), Optional.of(known), Optional.of(new Coalesced(32, 8)),
        Optional.of("8 buckets in 32 ranges"))));
    assertTrue(only(onKey(ORDERS, lines)).toString().endsWith(
        "colocate: true, note: 8 buckets in 32 ranges; the 32 buckets of shop.lines are read as 8"));
  }

  /** Tables of different groups are named, whatever else hides their buckets; the session's switch is above all. */
  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "''|the table is in no group|Tables are not in the same group: shop.lines is in no group, shop.orders is in shop/sales",
      "shop/stock|group is not stable: NodeGone"
          + "|Tables are not in the same group: shop.lines is in shop/stock, shop.orders is in shop/sales",
      "''|Session disabled|Session disabled",
      "''|Session disabled: spark.sql.sources.bucketing.enabled=false|Session disabled: spark.sql.sources.bucketing.enabled=false"})
  void whatStaysWrongIsSaidFirst(String group, String reason, String verdict) {
    PlanNode lines = scan("shop.lines", new KnownTable("shop.lines", group, false, reason, List.of("l_key")), false, Map.of(11L, "l_key"));
    assertEquals(verdict, only(onKey(shuffled(ORDERS), shuffled(lines))).reason());
  }

  /** A cached bucketed scan joins as the scan does; a shuffle inside the cache counts. */
  @Test
  void cachedRowsKeepTheirBuckets() {
    for (boolean isShuffled : List.of(false, true)) {
      PlanNode cached = with("InMemoryTableScan", isShuffled ? shuffled(ORDERS) : ORDERS, Map.of(61L, OptionalLong.of(1)), true);
      String reason = only(merged(cached, LINES, key("o_key", 61), key("l_key", 11))).reason();
      assertEquals(isShuffled ? "The src data has been redistributed" : "", reason);
    }
  }

  /** A join whose result is used twice stands once in the report. */
  @Test
  void aReusedExchangeIsReportedOnce() {
    PlanNode part = onKey(ORDERS, LINES);
    PlanNode again = new PlanNode("ShuffleExchange", List.of(part), List.of(), Optional.empty(), Optional.empty(), Optional.empty(),
        Map.of(), "ENSURE_REQUIREMENTS", true);
    PlanNode plan = merged(shuffled(part), again, key("o_date", 2), key("o_date", 2));
    assertEquals(2, Verdicts.joins(plan).size());
    assertEquals(2, Verdicts.exchanges(plan));
  }

  /** A small table that was broadcast into one side leaves that side's buckets where they are. */
  @Test
  void aBroadcastSideDoesNotMatterForTheJoinAbove() {
    PlanNode small = broadcast(ORDERS, node("Project", shuffled(PLAIN)), key("k", 41), "", false);
    assertEquals(List.of(true, false), colocated(onKey(small, LINES)));
  }

  /** The final aggregate's exchange is no shuffle of a join's input. */
  @Test
  void anExchangeAboveAllJoinsDoesNotCount() {
    assertEquals(0, Verdicts.exchanges(shuffled(node("HashAggregate", onKey(ORDERS, LINES)))));
  }

  /** A scalar subquery's join is listed after the main plan's, and its shuffles move none of the rows of a join above. */
  @Test
  void subqueries() {
    assertEquals(List.of(true), colocated(filter(ORDERS, onKey(ORDERS, LINES))));
    assertEquals(0, Verdicts.exchanges(onKey(filter(ORDERS, shuffled(LINES)), LINES)));
  }

  // Group-bys and windows

  static Stream<Arguments> aggregates() {
    return Stream.of(
        arguments("key", grouped(PARTIAL, Kind.AGGREGATE, key("o_key", 1)), ""),
        arguments("key and more", grouped(PARTIAL, Kind.AGGREGATE, key("o_date", 2), key("o_key", 1)), ""),
        arguments("over a join", grouped(onKey(ORDERS, LINES), Kind.AGGREGATE, key("o_key", 1)), ""),
        arguments("another key", grouped(shuffled(PARTIAL), Kind.AGGREGATE, key("o_date", 2)),
            "Inconsistent distribution of table and queries: shop.orders is bucketed by (o_key), "
                + "the group-by's keys are (shop.orders.o_date)"),
        arguments("an expression",
            grouped(shuffled(project(ORDERS, 71, OptionalLong.empty())), Kind.AGGREGATE, key("x", 71)),
            "Src column hash been transformed by expr: x"),
        arguments("not stable", grouped(shuffled(DOWN), Kind.AGGREGATE, key("d_key", 31)), "group is not stable: NodeGone"),
        arguments("a plain table", grouped(shuffled(PLAIN), Kind.AGGREGATE, key("k", 41)),
            "Tables are not in the same group: file:/tmp/x is not a ColocatedTable"));
  }

  /** A group-by is colocated when no shuffle is between it and the bucketed scans. */
  @ParameterizedTest(name = "{0}")
  @MethodSource("aggregates")
  void aggregates(String what, PlanNode plan, String reason) {
    List<GroupingReport> reports = Verdicts.aggregates(plan);
    assertEquals(List.of(reason), reports.stream().map(GroupingReport::reason).toList());
    assertEquals(reason.isEmpty(), reports.get(0).colocate());
  }

  /** {@code count(DISTINCT …)} has two phases that need a distribution; the last one is the query's. */
  @Test
  void phasesOfOneAggregateAreOne() {
    PlanNode first = grouped(shuffled(PARTIAL), Kind.AGGREGATE, key("o_key", 1), key("o_date", 2));
    List<GroupingReport> reports = Verdicts.aggregates(grouped(shuffled(first), Kind.AGGREGATE, key("o_key", 1)));
    assertEquals(List.of(List.of("o_key")), reports.stream().map(GroupingReport::keys).toList());
  }

  /** A window by the bucket key needs no shuffle; one without PARTITION BY puts all rows together. */
  @Test
  void windows() {
    assertEquals("HashAggregate (o_key) of shop.orders: colocate: true",
        Verdicts.windows(grouped(ORDERS, Kind.WINDOW, key("o_key", 1))).get(0).toString());
    assertEquals("HashAggregate (no keys) of shop.orders: colocate: false, reason: "
        + "Inconsistent distribution of table and queries: no PARTITION BY, so all rows are one group",
        Verdicts.windows(grouped(shuffled(ORDERS), Kind.WINDOW)).get(0).toString());
  }

  /** Without GROUP BY there is nothing to bring together but one row per task. */
  @Test
  void aggregatesOfAllRowsAreNotListed() {
    assertEquals(List.of(), Verdicts.aggregates(grouped(shuffled(PARTIAL), Kind.AGGREGATE)));
  }
}
