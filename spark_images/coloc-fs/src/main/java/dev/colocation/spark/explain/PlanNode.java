package dev.colocation.spark.explain;

import java.math.BigInteger;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * An operator of a physical plan: what verdicts need of it, and none of Spark's classes.
 *
 * @param name Spark's name without {@code Exec}, e.g. {@code SortMergeJoin}
 * @param aliases ids of columns that it renames, and their ids before; empty = computed
 * @param shuffleOrigin of a shuffle: why Spark made it, in Spark's words
 * @param reused its rows are those of an equal operator elsewhere in the plan, or were cached: what is below it is not done again
 */
record PlanNode(
    String name, List<PlanNode> children, List<PlanNode> subqueries, Optional<Scan> scan, Optional<Join> join, Optional<Grouping> grouping,
    Map<Long, OptionalLong> aliases, String shuffleOrigin, boolean reused) {

  /** The rows of a MERGE's source that is computed before the queries that join it. */
  static final String MERGE_SOURCE = "MergeSource";
  /** Operators that bring all rows into one partition by a shuffle of their own, without an Exchange in the plan. */
  static final Set<String> INTERNAL_SHUFFLES = Set.of("TakeOrderedAndProject", "CollectLimit", "CollectTail");
  /** Operators that put several partitions into one: a task then reads buckets of several nodes. */
  static final Set<String> PARTITION_MERGES = Set.of("Coalesce");

  /**
   * A key of an operator.
   *
   * @param column its id, if it is a plain column; empty = computed
   */
  record Key(String text, OptionalLong column) {}

  /**
   * A scan of files.
   *
   * @param columns names of its output columns, by their ids
   * @param known empty for a table that the catalog did not plan
   * @param coalesced present where a task reads several of its buckets, for a join with a table of fewer
   * @param ranges present where several tasks read a bucket: in how many ranges of the key
   */
  record Scan(
      String location, String table, boolean bucketed, Map<Long, String> columns, Optional<KnownTable> known,
      Optional<Coalesced> coalesced, Optional<String> ranges) {
    /** How many buckets a table has, and as how many they are read. */
    record Coalesced(int buckets, int readAs) {}

    /** The table as people name it. */
    String shown() {
      return known.map(KnownTable::name).orElse(table.isEmpty() ? location : table);
    }

    /** What qualifies that it is read by its buckets. */
    Stream<String> notes() {
      return Stream.of(
          known.map(KnownTable::reason).filter(reason -> !reason.isEmpty()),
          coalesced.map(number -> "the " + number.buckets + " buckets of " + shown() + " are read as " + number.readAs),
          ranges).flatMap(Optional::stream);
    }
  }

  /**
   * A join.
   *
   * @param leftKeys equal to {@code rightKeys}, one by one; none for joins without equality
   * @param nullSafe for each pair, whether NULL is equal to NULL ({@code <=>})
   * @param hint the strategy that the query names; empty = none
   * @param broadcast empty when no side is copied to all executors
   * @param nullAware {@code NOT IN}: one NULL on the other side decides about all rows
   */
  record Join(
      String type, List<Key> leftKeys, List<Key> rightKeys, List<Boolean> nullSafe, String hint, Optional<Broadcast> broadcast,
      boolean nullAware) {}

  /**
   * The side of a join that is copied to all executors.
   *
   * @param side 0 or 1
   * @param bytes Spark's estimate; empty = unknown
   * @param thresholdBytes up to which size Spark broadcasts by itself; negative = never
   */
  record Broadcast(int side, Optional<BigInteger> bytes, long thresholdBytes) {}

  /**
   * An operator that needs all rows of equal keys in one partition.
   *
   * @param keys none = all rows in one partition
   * @param logicalId the same for all physical phases of one aggregate of the query; empty = unknown
   */
  record Grouping(Kind kind, List<Key> keys, OptionalInt logicalId) {
    enum Kind {
      /** A group-by, or DISTINCT. */
      AGGREGATE,
      WINDOW
    }
  }

  /** Whether rows go over the network to another partition here. */
  boolean isShuffle() {
    return name.equals("ShuffleExchange");
  }

  /** Whether a row's bucket no longer determines its partition from here on. */
  boolean redistributes() {
    return isShuffle() || INTERNAL_SHUFFLES.contains(name) || PARTITION_MERGES.contains(name);
  }

  /** This operator and all that runs below it, subqueries too, parents first; what is reused counts where it ran. */
  Stream<PlanNode> walk() {
    Stream<PlanNode> below = reused ? Stream.of() : Stream.concat(children.stream(), subqueries.stream()).flatMap(PlanNode::walk);
    return Stream.concat(Stream.of(this), below);
  }

  /** This operator and all that its rows come from, reused or not, parents first. */
  Stream<PlanNode> inputs() {
    return Stream.concat(Stream.of(this), children.stream().flatMap(PlanNode::inputs));
  }

  /** The operators up to the next shuffles that decide in which partition a row is, parents first: not the broadcast sides of joins. */
  Stream<PlanNode> partitionedBy() {
    return partitionedBy(false);
  }

  /** The same down to the scans. */
  Stream<PlanNode> partitionedByAtFirst() {
    return partitionedBy(true);
  }

  private Stream<PlanNode> partitionedBy(boolean throughShuffles) {
    if (redistributes() && !throughShuffles) {
      return Stream.of(this);
    }
    return Stream.concat(Stream.of(this), IntStream.range(0, children.size()).filter(side -> !isBroadcast(side)).boxed()
        .flatMap(side -> children.get(side).partitionedBy(throughShuffles)));
  }

  private boolean isBroadcast(int side) {
    return join.flatMap(Join::broadcast).filter(broadcast -> broadcast.side() == side).isPresent();
  }
}
