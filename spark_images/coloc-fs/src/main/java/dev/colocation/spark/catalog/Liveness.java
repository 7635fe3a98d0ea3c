package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.GroupObject;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Whether every bucket of a group can be read now, as far as the operator's words tell; the rule and the words of {@code
 * colocation/model/reader_rules.py}, against which it is tested.
 *
 * @param isWhole every bucket has a live replica
 * @param message which have none; empty when all have one, or when the group's own reason says enough
 */
record Liveness(boolean isWhole, String message) {
  static final Liveness UNKNOWN = new Liveness(false, "");

  private static final int MAX_NAMED_BUCKETS = 3;
  private static final String COMPLETE = "complete";

  /**
   * Counts replicas on nodes of each bucket's row whose agents are ready, unless the status says that they are not complete.
   *
   * @param group of an operator whose words hold
   * @param ready nodes whose agents are ready
   */
  static Liveness of(GroupObject group, Set<String> ready) {
    List<List<String>> rows = group.buckets();
    if (group.stable().isEmpty() || rows.isEmpty() || group.reason().equals("MarkedUnstable")) {
      return UNKNOWN;
    }
    Map<Integer, Map<String, String>> told = group.unstableBuckets().stream().collect(
        Collectors.toMap(GroupObject.UnstableBucket::bucket, GroupObject.UnstableBucket::replicas, (first, last) -> last));
    List<Integer> dead = IntStream.range(0, rows.size()).boxed()
        .filter(bucket -> rows.get(bucket).stream().noneMatch(node -> ready.contains(node)
            && told.getOrDefault(bucket, Map.of()).getOrDefault(node, COMPLETE).equals(COMPLETE)))
        .toList();
    return dead.isEmpty() ? new Liveness(true, "") : new Liveness(false, "NoLiveReplica: " + listed(dead));
  }

  /** {@code bucket 3}, {@code buckets 0, 3, 5}, or {@code buckets 0, 1, 2 and 7 more}. */
  private static String listed(List<Integer> buckets) {
    String shown = buckets.stream().limit(MAX_NAMED_BUCKETS).map(String::valueOf).collect(Collectors.joining(", "));
    int more = buckets.size() - MAX_NAMED_BUCKETS;
    return (buckets.size() == 1 ? "bucket " : "buckets ") + shown + (more > 0 ? " and " + more + " more" : "");
  }
}
