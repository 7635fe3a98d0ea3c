package dev.colocation.spark.fs;

import java.lang.ref.WeakReference;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.status.api.v1.ExecutorSummary;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The hosts of running executors, by node; on the driver.
 *
 * <p>An executor's host is its pod's IP, a replica's place is a node's name; the executor's attribute {@value #NODE_NAME}
 * ties them together. There are two sources, since Spark drops events when a listener's queue is full: a listener with a queue
 * of its own, and Spark's list of executors, which is read before each query.
 */
public final class ExecutorHosts extends SparkListener {
  public static final ExecutorHosts OF_THIS_DRIVER = new ExecutorHosts();

  static final String NODE_NAME = "NODE_NAME";
  /** Sets the attribute, in the executor's environment. */
  private static final String VARIABLE = "SPARK_EXECUTOR_ATTRIBUTE_" + NODE_NAME;

  /** {@code FilePartition.preferredLocations} keeps the three hosts with the most bytes. */
  private static final int MAX_HOSTS = 3;

  private static final Logger LOG = LoggerFactory.getLogger(ExecutorHosts.class);
  private static final String QUEUE = "colocation";

  private record Executor(String node, String host) {}

  private WeakReference<SparkContext> followed = new WeakReference<>(null);
  private final Set<String> groupsWarnedOf = new HashSet<>();
  private final Map<String, Executor> executors = new TreeMap<>();
  /** Replaced as a whole, since it is read for each file of each query. */
  private volatile Map<String, List<String>> hostsByNode = Map.of();

  /** Tracks the application's executors: those that run now, and each one that starts or ends later. */
  public synchronized void follow(SparkContext context) {
    if (followed.get() != context) {
      clear();
      followed = new WeakReference<>(context);
      context.listenerBus().addToQueue(this, QUEUE);
    }
    CollectionConverters.asJava(context.statusStore().executorList(false)).forEach(this::take);
    refresh();
  }

  private void take(ExecutorSummary executor) {
    Option<String> node = executor.attributes().get(NODE_NAME);
    if (!executor.isActive()) {
      executors.remove(executor.id());
    } else if (node.isDefined()) {
      executors.put(executor.id(), new Executor(node.get(), executor.hostPort().replaceFirst(":\\d+$", "")));
    }
  }

  /**
   * Where a bucket's tasks should run: on one executor of each of its nodes, then on a second one of each, until there are
   * as many hosts as Spark takes. A node's buckets take its executors in turn, so that all of them are used equally.
   *
   * @return empty when there are no executors on the bucket's nodes
   */
  String[] of(Settings.Group group, int bucket) {
    List<String> nodes = group.nodesOf(bucket);
    String[] hosts = of(nodes, group.turnsOf(bucket));
    if (hosts.length == 0 && !nodes.isEmpty()) {
      warn(group, nodes);
    }
    return hosts;
  }

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

  synchronized void clear() {
    executors.clear();
    groupsWarnedOf.clear();
    refresh();
  }

  /** Warns once for each group: without hosts, tasks run on any node and read colocated data over the network. */
  private synchronized void warn(Settings.Group group, List<String> nodes) {
    SparkContext context = followed.get();
    if (context == null || context.isLocal() || !groupsWarnedOf.add(group.name())) {
      return;
    }
    String cause = !executors.isEmpty() ? "executors run on " + String.join(", ", new TreeSet<>(hostsByNode.keySet()))
        : context.getExecutorIds().isEmpty() ? "no executor has started yet"
        : "no executor tells its node: set " + VARIABLE + " to spec.nodeName in the executors' pod template";
    LOG.warn("group {}: no executor runs on {}; reads of a bucket go over the network. Cause: {}",
        group.name(), String.join(" or ", nodes), cause);
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

  /**
   * A file whose hosts are looked up whenever Spark asks, that is for each query: executors come and go after the table was
   * listed.
   */
  public static final class ColocFileStatus extends LocatedFileStatus {
    private static final long serialVersionUID = 1L;

    private final transient Settings.Group group;
    private final transient int bucket;

    public ColocFileStatus(FileStatus status, Settings.Group group, int bucket) {
      super(status, null);
      this.group = group;
      this.bucket = bucket;
    }

    @Override
    public BlockLocation[] getBlockLocations() {
      String[] hosts = group == null
          ? new String[0]
          : ExecutorHosts.OF_THIS_DRIVER.of(group, bucket);
      return new BlockLocation[] {new BlockLocation(hosts, hosts, 0, getLen())};
    }
  }
}
