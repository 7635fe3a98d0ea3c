package dev.colocation.spark.fs;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import scala.Option;

/**
 * Which hosts run executors on a node, as of now. Lives on the driver.
 *
 * <p>An executor's host is its pod's IP, a replica's place is a node's name; the executor's attribute {@value #NODE_NAME}
 * ties them together.
 */
public final class ExecutorHosts extends SparkListener {
  public static final ExecutorHosts OF_THIS_DRIVER = new ExecutorHosts();

  /** Set by {@code SPARK_EXECUTOR_ATTRIBUTE_NODE_NAME} in the executor's environment. */
  static final String NODE_NAME = "NODE_NAME";

  /** {@code FilePartition.preferredLocations} keeps the three hosts with the most bytes. */
  private static final int MAX_HOSTS = 3;

  private record Executor(String node, String host) {}

  private final Map<String, Executor> executors = new TreeMap<>();
  /** Replaced as a whole, since each file of each query asks. */
  private volatile Map<String, List<String>> hostsByNode = Map.of();

  /**
   * Where a bucket's tasks should run: on one executor of each of its nodes, then on a second one of each, until there are
   * as many hosts as Spark takes. A node's buckets take its executors in turn, so that all of them are wanted equally.
   *
   * @param nodes the bucket's
   * @param turns for each node, the bucket's place among the node's buckets
   * @return empty when there are no executors on the nodes
   */
  String[] of(List<String> nodes, int[] turns) {
    Map<String, List<String>> current = hostsByNode;
    Set<String> hosts = new LinkedHashSet<>();
    int most = nodes.stream().mapToInt(node -> current.getOrDefault(node, List.of()).size()).max().orElse(0);
    for (int round = 0; round < most; round++) {
      for (int place = 0; place < nodes.size() && hosts.size() < MAX_HOSTS; place++) {
        List<String> executors = current.getOrDefault(nodes.get(place), List.of());
        if (round < executors.size()) {
          hosts.add(executors.get((turns[place] + round) % executors.size()));
        }
      }
    }
    return hosts.toArray(String[]::new);
  }

  synchronized void add(String executor, String node, String host) {
    executors.put(executor, new Executor(node, host));
    refresh();
  }

  synchronized void remove(String executor) {
    executors.remove(executor);
    refresh();
  }

  public synchronized void clear() {
    executors.clear();
    refresh();
  }

  private void refresh() {
    hostsByNode = executors.values().stream().collect(
        Collectors.groupingBy(
            Executor::node,
            Collectors.collectingAndThen(
                Collectors.mapping(Executor::host, Collectors.toCollection(TreeSet::new)), List::copyOf)));
  }

  @Override
  public void onExecutorAdded(SparkListenerExecutorAdded added) {
    Option<String> node = added.executorInfo().attributes().get(NODE_NAME);
    if (node.isDefined()) {
      add(added.executorId(), node.get(), added.executorInfo().executorHost());
    }
  }

  @Override
  public void onExecutorRemoved(SparkListenerExecutorRemoved removed) {
    remove(removed.executorId());
  }
}
