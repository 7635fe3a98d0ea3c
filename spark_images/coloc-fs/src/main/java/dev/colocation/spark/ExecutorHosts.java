package dev.colocation.spark;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
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
final class ExecutorHosts extends SparkListener {
  static final ExecutorHosts OF_THIS_DRIVER = new ExecutorHosts();

  /** Set by {@code SPARK_EXECUTOR_ATTRIBUTE_NODE_NAME} in the executor's environment. */
  static final String NODE_NAME = "NODE_NAME";

  private record Executor(String node, String host) {}

  private final Map<String, Executor> executors = new TreeMap<>();
  /** Replaced as a whole, since each file of each query asks. */
  private volatile Map<String, Set<String>> hostsByNode = Map.of();

  /** Hosts of the executors on these nodes; empty when there are none. */
  String[] of(List<String> nodes) {
    Map<String, Set<String>> current = hostsByNode;
    return nodes.stream()
        .flatMap(node -> current.getOrDefault(node, Set.of()).stream())
        .distinct()
        .toArray(String[]::new);
  }

  synchronized void add(String executor, String node, String host) {
    executors.put(executor, new Executor(node, host));
    refresh();
  }

  synchronized void remove(String executor) {
    executors.remove(executor);
    refresh();
  }

  synchronized void clear() {
    executors.clear();
    refresh();
  }

  private void refresh() {
    hostsByNode = executors.values().stream().collect(
        Collectors.groupingBy(Executor::node, Collectors.mapping(Executor::host, Collectors.toUnmodifiableSet())));
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
