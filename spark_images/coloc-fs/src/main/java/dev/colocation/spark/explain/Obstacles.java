package dev.colocation.spark.explain;

import dev.colocation.spark.explain.PlanNode.Join;
import dev.colocation.spark.explain.PlanNode.Key;
import dev.colocation.spark.explain.PlanNode.Scan;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** Why rows of equal keys are not in one task already, as a plan shows it. Pure. */
final class Obstacles {
  private static final Set<String> OUTER = Set.of("LeftOuter", "RightOuter");

  private final List<PlanNode> inputs;
  private final List<List<Key>> keys;
  private final String what;

  /**
   * Those of an operator.
   *
   * @param inputs its one or two children
   * @param keys its keys, for each child
   * @param what the keys' name in reasons, e.g. {@code the join's keys}
   */
  Obstacles(List<PlanNode> inputs, List<List<Key>> keys, String what) {
    this.inputs = inputs;
    this.keys = keys;
    this.what = what;
  }

  /** The tables that an operator's rows come from, as people name them, in the plan's order. */
  static List<String> tables(PlanNode node) {
    return node.inputs().flatMap(below -> below.scan().stream()).map(Scan::shown).toList();
  }

  /** What qualifies the bucketed reading of the tables; empty when nothing does. */
  String notes() {
    return leaves().stream().flatMap(leaf -> leaf.scan().stream())
        .filter(scan -> scan.known().filter(KnownTable::bucketed).isPresent()).flatMap(Scan::notes)
        .distinct().sorted().collect(Collectors.joining("; "));
  }

  /** Why rows of equal keys are not in one bucket; empty when the plan shows that they are. */
  String whyNotTogether() {
    List<PlanNode> paths = inputs.stream().flatMap(PlanNode::partitionedBy).toList();
    if (paths.stream().anyMatch(PlanNode::redistributes)) {
      return first(ofTablesAndKeys(), cause(), unusedBuckets(leaves()), ofOuterJoins(), Reasons.REDISTRIBUTED);
    }
    List<PlanNode> leaves = paths.stream().filter(node -> node.children().isEmpty()).toList();
    return first(foreignRows(leaves), differentGroups(leaves), unusedBuckets(leaves));
  }

  /** What tables and keys have against colocation, whatever the plan does; empty when nothing. */
  String ofTablesAndKeys() {
    List<PlanNode> leaves = leaves();
    String hidden = known(leaves).filter(table -> !table.bucketed()).map(KnownTable::reason).findFirst().orElse("");
    String apart = hidden.startsWith(Reasons.SESSION_DISABLED) ? hidden : differentGroups(leaves);
    return first(foreignRows(leaves), apart, hidden, ofKeys());
  }

  private static String first(String... reasons) {
    return Stream.of(reasons).filter(reason -> !reason.isEmpty()).findFirst().orElse("");
  }

  private List<PlanNode> leaves() {
    return inputs.stream().flatMap(Obstacles::leaves).toList();
  }

  private static Stream<PlanNode> leaves(PlanNode input) {
    return input.partitionedByAtFirst().filter(node -> node.children().isEmpty());
  }

  private static Stream<KnownTable> known(List<PlanNode> leaves) {
    return leaves.stream().flatMap(leaf -> leaf.scan().flatMap(Scan::known).stream());
  }

  // Tables

  private static String foreignRows(List<PlanNode> leaves) {
    for (PlanNode leaf : leaves) {
      if (leaf.name().equals(PlanNode.MERGE_SOURCE)) {
        return Reasons.REDISTRIBUTED + ": the source is computed first";
      }
      if (leaf.scan().isEmpty()) {
        return Reasons.NO_GROUP + ": rows of one side (" + leaf.name() + ") are not of a ColocatedTable";
      }
      if (leaf.scan().get().known().isEmpty()) {
        return Reasons.NO_GROUP + ": " + leaf.scan().get().shown() + " is not a ColocatedTable";
      }
    }
    return "";
  }

  private static String differentGroups(List<PlanNode> leaves) {
    if (known(leaves).map(KnownTable::group).distinct().count() < 2) {
      return "";
    }
    return Reasons.NO_GROUP + ": " + known(leaves)
        .map(KnownTable::place).distinct().sorted().collect(Collectors.joining(", "));
  }

  /** Tables that have buckets, but that Spark chose not to read by them. */
  private static String unusedBuckets(List<PlanNode> leaves) {
    String unused = leaves.stream().flatMap(leaf -> leaf.scan().stream()).filter(scan -> !scan.bucketed())
        .map(scan -> scan.table().isEmpty() ? scan.location() : scan.table()).distinct().sorted().collect(Collectors.joining(", "));
    return unused.isEmpty() ? "" : Reasons.REDISTRIBUTED + ": Spark reads " + unused + " without buckets";
  }

  // Keys

  /**
   * The column of a scan that a key is.
   *
   * @param scan tells two scans of one table from each other
   */
  private record Origin(int scan, Optional<KnownTable> table, String column) {
    @Override
    public String toString() {
      return table.map(known -> known.name() + "." + column).orElse(column);
    }
  }

  /** What the keys have against it: each side's must contain the bucket key of a table, paired with the other's. */
  private String ofKeys() {
    List<List<Optional<Origin>>> sides = IntStream.range(0, inputs.size())
        .mapToObj(side -> origins(inputs.get(side), keys.get(side))).toList();
    for (int side = 0; side < sides.size(); side++) {
      if (bucketPositions(sides.get(side)).isEmpty()) {
        return ofKeys(inputs.get(side), keys.get(side), sides.get(side));
      }
    }
    if (sides.size() == 2 && bucketPositions(sides.get(0)).stream().noneMatch(bucketPositions(sides.get(1))::contains)) {
      String pairs = IntStream.range(0, sides.get(0).size())
          .mapToObj(place -> shown(sides.get(0).get(place)) + " = " + shown(sides.get(1).get(place))).collect(Collectors.joining(", "));
      return Reasons.INCONSISTENT + ": columns of the bucket keys are compared out of order: " + pairs;
    }
    return "";
  }

  private String ofKeys(PlanNode input, List<Key> given, List<Optional<Origin>> origins) {
    String computed = IntStream.range(0, given.size()).filter(place -> origins.get(place).isEmpty())
        .mapToObj(place -> given.get(place).text()).collect(Collectors.joining(", "));
    if (!computed.isEmpty()) {
      return Reasons.TRANSFORMED + ": " + computed;
    }
    String buckets = known(leaves(input).toList()).map(table -> table.name() + " is bucketed by (" + String.join(", ", table.bucketedBy()) + ")")
        .distinct().collect(Collectors.joining(", "));
    return Reasons.INCONSISTENT + ": " + buckets + ", " + what + " are ("
        + origins.stream().map(Obstacles::shown).collect(Collectors.joining(", ")) + ")";
  }

  private static String shown(Optional<Origin> origin) {
    return origin.map(Origin::toString).orElse("(computed)");
  }

  /** For each scan whose bucket key is among the keys: where each column of it stands among them. */
  private static List<List<Integer>> bucketPositions(List<Optional<Origin>> origins) {
    Map<Integer, KnownTable> scans = new LinkedHashMap<>();
    origins.stream().flatMap(Optional::stream).forEach(one -> one.table().ifPresent(table -> scans.putIfAbsent(one.scan(), table)));
    List<List<Integer>> found = new ArrayList<>();
    scans.forEach((scan, table) -> {
      List<Integer> positions = table.bucketedBy().stream().map(column -> position(origins, scan, column)).toList();
      if (!positions.contains(-1)) {
        found.add(positions);
      }
    });
    return found;
  }

  private static int position(List<Optional<Origin>> origins, int scan, String column) {
    return IntStream.range(0, origins.size())
        .filter(place -> origins.get(place).filter(one -> one.scan() == scan && one.column().equalsIgnoreCase(column)).isPresent())
        .findFirst().orElse(-1);
  }

  /** The columns that keys are, through renames; empty for one that is computed. */
  private static List<Optional<Origin>> origins(PlanNode side, List<Key> keys) {
    Map<Long, OptionalLong> renames = new HashMap<>();
    side.inputs().forEach(node -> renames.putAll(node.aliases()));
    Map<Long, Origin> columns = new HashMap<>();
    List<Scan> scans = side.inputs().flatMap(node -> node.scan().stream()).toList();
    for (int number = 0; number < scans.size(); number++) {
      Scan scan = scans.get(number);
      int of = number;
      scan.columns().forEach((id, name) -> columns.put(id, new Origin(of, scan.known(), name)));
    }
    return keys.stream().map(key -> origin(key.column(), renames, columns)).toList();
  }

  private static Optional<Origin> origin(OptionalLong key, Map<Long, OptionalLong> renames, Map<Long, Origin> columns) {
    OptionalLong column = key;
    while (column.isPresent() && !columns.containsKey(column.getAsLong())) {
      column = renames.getOrDefault(column.getAsLong(), OptionalLong.empty());
    }
    return column.isEmpty() ? Optional.empty() : Optional.of(columns.get(column.getAsLong()));
  }

  // Shuffles

  /** What took the rows out of their buckets, below the shuffle that the operator itself asked for; empty when nothing did. */
  private String cause() {
    return inputs.stream().map(Obstacles::cause).filter(found -> !found.isEmpty()).findFirst()
        .map(found -> Reasons.REDISTRIBUTED + ": " + found).orElse("");
  }

  /** Rows of an outer join lie by the key of the side that it keeps. */
  private String ofOuterJoins() {
    return inputs.stream().flatMap(PlanNode::partitionedByAtFirst).flatMap(node -> node.join().stream()).map(Join::type)
        .anyMatch(OUTER::contains)
        ? Reasons.REDISTRIBUTED + ": an outer join leaves this key NULL where it finds no row" : "";
  }

  private static String cause(PlanNode input) {
    boolean ownSeen = false;
    for (PlanNode node : input.partitionedByAtFirst().toList()) {
      if (isRequired(node) && !ownSeen) {
        ownSeen = true;
      } else if (!causeAt(node).isEmpty()) {
        return causeAt(node);
      }
    }
    return "";
  }

  /** Whether a shuffle is there because an operator above needs its keys, not because the query asks for it. */
  private static boolean isRequired(PlanNode node) {
    return node.isShuffle() && List.of("", "ENSURE_REQUIREMENTS").contains(node.shuffleOrigin());
  }

  private static String causeAt(PlanNode node) {
    if (PlanNode.INTERNAL_SHUFFLES.contains(node.name())) {
      return "a limit brings all rows into one partition";
    }
    if (PlanNode.PARTITION_MERGES.contains(node.name())) {
      return "coalesce merges partitions";
    }
    if (node.name().equals("Union")) {
      return "the inputs of a union are not all in buckets of its keys";
    }
    if (node.join().map(Join::type).filter("FullOuter"::equals).isPresent()) {
      return "a full outer join's rows have the key of either side";
    }
    if (!node.isShuffle()) {
      return "";
    }
    return isRequired(node) ? "another operator below needs other keys" : "the query asks for it (" + node.shuffleOrigin() + ")";
  }
}
