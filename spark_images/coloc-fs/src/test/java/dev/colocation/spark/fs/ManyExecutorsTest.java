package dev.colocation.spark.fs;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Four executors on each of three nodes, each with a host of its own, as pods have: Spark prefers three hosts of a task. */
class ManyExecutorsTest {
  private static final int NODES = 3;
  private static final int EXECUTORS_PER_NODE = 4;
  /** {@code spark.locality.wait.node}. */
  private static final double WAIT_SECONDS = 10;

  private record Executor(double freeAt, int node, String host) {}

  @BeforeEach
  void register() {
    for (int node = 0; node < NODES; node++) {
      for (int number = 0; number < EXECUTORS_PER_NODE; number++) {
        ExecutorHosts.OF_THIS_DRIVER.add(node + "-" + number, "node-" + node, host(node, number));
      }
    }
  }

  @AfterEach
  void forget() {
    ExecutorHosts.OF_THIS_DRIVER.clear();
  }

  private static String host(int node, int number) {
    return "10.0." + node + "." + number;
  }

  /**
   * Spark's delay scheduling: a free executor takes a task that wants its host, and any task only when none was taken so for
   * the waiting time. At least 95 % of all bytes are read on nodes that hold them, whatever tasks take.
   */
  @ParameterizedTest
  @CsvSource({"12, 2, 1.0", "24, 2, 1.0", "96, 2, 1.0", "96, 3, 1.0", "1000, 2, 1.0", "96, 2, 5.0", "12, 1, 5.0", "7, 2, 20.0"})
  void tasksRunOnNodesWithTheirFiles(int buckets, int replicas, double longestSeconds) {
    for (int seed = 0; seed < 20; seed++) {
      double share = localShare(buckets, replicas, longestSeconds, new Random(seed));
      assertTrue(share >= 0.95, share + " with seed " + seed);
    }
  }

  private static double localShare(int buckets, int replicas, double longestSeconds, Random random) {
    List<List<String>> map = new ArrayList<>();
    for (int bucket = 0; bucket < buckets; bucket++) {
      List<String> nodes = new ArrayList<>();
      for (int replica = 0; replica < replicas; replica++) {
        nodes.add("node-" + (bucket + replica) % NODES);
      }
      map.add(nodes);
    }
    Settings.Group group = new Settings.Group("sales", Map.of(), Map.of(), map);
    List<Integer> waiting = new ArrayList<>();
    for (int bucket = 0; bucket < buckets; bucket++) {
      waiting.add(bucket);
    }
    PriorityQueue<Executor> executors = new PriorityQueue<>((left, right) -> Double.compare(left.freeAt, right.freeAt));
    for (int node = 0; node < NODES; node++) {
      for (int number = 0; number < EXECUTORS_PER_NODE; number++) {
        executors.add(new Executor(random.nextDouble() / 10, node, host(node, number)));
      }
    }
    double lastLocalAt = 0;
    int local = 0;
    while (!waiting.isEmpty()) {
      Executor executor = executors.poll();
      double now = executor.freeAt();
      Integer taken = waiting.stream()
          .filter(bucket -> Arrays.asList(
              ExecutorHosts.OF_THIS_DRIVER.of(group.nodesOf(bucket), group.turnsOf(bucket))).contains(executor.host()))
          .findFirst().orElse(null);
      if (taken != null) {
        lastLocalAt = now;
      } else if (now - lastLocalAt >= WAIT_SECONDS) {
        taken = waiting.get(0);
      }
      double busy = taken == null ? 0.1 : 0.1 + random.nextDouble() * longestSeconds;
      executors.add(new Executor(now + busy, executor.node(), executor.host()));
      if (taken != null) {
        waiting.remove(taken);
        local += map.get(taken).contains("node-" + executor.node()) ? 1 : 0;
      }
    }
    return (double) local / buckets;
  }
}
