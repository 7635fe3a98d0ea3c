package dev.colocation.spark.write;

import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.Cluster.NoAnswer;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationGroup;
import dev.colocation.spark.cluster.Timer;
import dev.colocation.spark.cluster.WriteException;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * The prerequisites of a change: an accepted table, its group's map, and ready agents.
 *
 * @param agents ready agents' URLs by node
 */
record LoadTarget(ColocatedTable table, ColocationGroup group, Map<String, String> agents) {
  private static final Duration POLL = Duration.ofSeconds(1);

  /** A prerequisite that is missing, but may come. */
  private static final class Lacking extends Exception {
    private static final long serialVersionUID = 1L;

    Lacking(String message) {
      super(message);
    }
  }

  List<List<String>> buckets() {
    return group.buckets();
  }

  /** The table's number of buckets. */
  int ofTable() {
    return table.buckets(buckets().size()).ofTable();
  }

  /**
   * Waits until the operator has accepted the table, made a map, and published the addresses of its agents.
   *
   * @param wait how long for the operator, from when the API server answered
   * @param answerWait how long for the API server while it does not answer
   * @throws WriteException.NotReady when it has not within that time, or refuses the table until it is changed; the message
   *     names what is missing
   */
  static LoadTarget await(
      Cluster cluster, String namespace, String name, Duration wait, Duration answerWait, Timer timer) {
    long started = timer.nanos();
    long answered = started;
    while (true) {
      String lacking;
      Duration limit;
      long since;
      try {
        return find(cluster, namespace, name);
      } catch (NoAnswer lost) {
        lacking = lost.getMessage();
        limit = answerWait;
        since = started;
        answered = timer.nanos();
      } catch (Lacking error) {
        lacking = error.getMessage();
        limit = wait;
        since = answered;
      }
      if (timer.nanos() - since >= limit.toNanos()) {
        throw new WriteException.NotReady("table " + namespace + "." + name + " cannot be loaded after "
            + limit.toSeconds() + " s: " + lacking);
      }
      timer.pause(POLL);
    }
  }

  private static LoadTarget find(Cluster cluster, String namespace, String name) throws NoAnswer, Lacking {
    ColocatedTable table = cluster.table(namespace, name);
    if (table.staysRefused()) {
      throw new WriteException.NotReady("table " + namespace + "." + name + " cannot be loaded: " + table.refusal());
    }
    require(table.refusal().isEmpty(), table.refusal());
    try {
      LoadTarget target = new LoadTarget(
          table, cluster.group(table.group()), cluster.agents(namespace, table.group()));
      String refusal = target.group().refusal(namespace);
      require(refusal.isEmpty(), refusal);
      target.requireMap();
      target.requireAgents();
      return target;
    } catch (Cluster.NotThere error) {
      throw new Lacking(error.getMessage());
    }
  }

  private void requireMap() throws Lacking {
    String name = group.key().referenceFrom(table.namespace());
    String reason = group.reason().isEmpty() ? "the operator has not seen it" : group.reason();
    require(!buckets().isEmpty(), "group " + name + " has no map yet (" + reason + ")");
    require(buckets().size() == group.bucketCount(), "group " + name + " has " + group.bucketCount()
        + " buckets, but its map has " + buckets().size());
    require(ofTable() % buckets().size() == 0, "the table has " + ofTable() + " buckets, which is no multiple of the "
        + buckets().size() + " of group " + name);
  }

  private void requireAgents() throws Lacking {
    long ready = buckets().stream().flatMap(List::stream).distinct().filter(agents::containsKey).count();
    for (int bucket = 0; bucket < buckets().size(); bucket++) {
      List<String> nodes = buckets().get(bucket);
      int wanted = Copies.majority(nodes.size());
      require(ready >= wanted, "bucket " + bucket + " is on nodes " + String.join(", ", nodes)
          + "; of the group's nodes " + ready + " have a ready agent; at least " + wanted + " must");
    }
  }

  private static void require(boolean isTrue, String otherwise) throws Lacking {
    if (!isTrue) {
      throw new Lacking(otherwise);
    }
  }
}
