package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.fs.AgentClient.Folder;
import dev.colocation.spark.fs.AgentFailure;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.zip.CRC32;

/**
 * Chooses the nodes for copies of a new file: those of its bucket, and others in place of unavailable ones.
 *
 * <p>A bucket's map names {@code replicas} nodes. A copy that one of them does not take is sent to another node of the group, a
 * <em>substitute</em>: a majority is on disks before anything may be committed, also with two replicas and one node down. The
 * operator keeps such copies until the map's nodes have theirs, and prefers a substitute as the lost node's successor.
 */
final class Copies {
  static final String NOT_READY = "its agent is not ready";

  private Copies() {}

  /** How many copies of a file must be on disks before it may be committed. */
  static int majority(int replicas) {
    return replicas / 2 + 1;
  }

  /**
   * The group's nodes outside a bucket's row, in the order in which they stand in for those of the row.
   *
   * <p>The order depends on bucket and names only, so that all files of a bucket go to the same nodes, and those of different
   * buckets to different ones.
   */
  static List<String> substitutesFor(List<List<String>> buckets, int bucket) {
    return buckets.stream().flatMap(List::stream).distinct()
        .filter(node -> !buckets.get(bucket).contains(node))
        .sorted(Comparator.comparingLong((String node) -> turn(bucket, node)).thenComparing(node -> node))
        .toList();
  }

  private static long turn(int bucket, String node) {
    CRC32 checksum = new CRC32();
    checksum.update((bucket + "/" + node).getBytes(StandardCharsets.UTF_8));
    return checksum.getValue();
  }

  /** Sends a file to several nodes in parallel; returns the nodes that failed, with the reason. */
  static Map<String, String> putOn(Agents agents, Folder folder, Collection<String> nodes, DataFile file, Path content)
      throws IOException {
    Map<String, Optional<String>> outcomes = Parallel.on(nodes, node -> put(agents, folder, node, file, content));
    Map<String, String> failures = new LinkedHashMap<>();
    outcomes.forEach((node, failure) -> failure.ifPresent(why -> failures.put(node, why)));
    return failures;
  }

  /** {@code node-1, node-2: why; node-3: another reason}: a reason that several nodes gave is long enough once. */
  static String byReason(Map<String, String> failures) {
    Map<String, List<String>> nodes = new LinkedHashMap<>();
    failures.forEach((node, why) -> nodes.computeIfAbsent(why, ignored -> new ArrayList<>()).add(node));
    return nodes.entrySet().stream().map(one -> String.join(", ", one.getValue()) + ": " + one.getKey())
        .collect(Collectors.joining("; "));
  }

  private static Optional<String> put(Agents agents, Folder folder, String node, DataFile file, Path content)
      throws IOException {
    if (!agents.nodes().contains(node)) {
      return Optional.of(NOT_READY);
    }
    try {
      agents.ask(node, (agent, retry) -> {
        agent.putFile(folder, file.path(), content, file.sha256(), retry);
        return node;
      });
      return Optional.empty();
    } catch (AgentFailure failure) {
      return Optional.of(failure.getMessage());
    }
  }

  /** Work on several nodes in parallel. */
  static final class Parallel {
    private static final int MOST_AT_ONCE = 16;

    private Parallel() {}

    /** Work on one node. */
    interface Work<T> {
      T on(String node) throws IOException;
    }

    /** Each node's result, in the order of the nodes; throws the first failure. */
    static <T> Map<String, T> on(Collection<String> nodes, Work<T> work) throws IOException {
      Map<String, T> outcomes = new LinkedHashMap<>();
      if (nodes.isEmpty()) {
        return outcomes;
      }
      ExecutorService workers = Executors.newFixedThreadPool(Math.min(nodes.size(), MOST_AT_ONCE), Parallel::thread);
      try {
        List<Future<T>> under = new ArrayList<>();
        nodes.forEach(node -> under.add(workers.submit(() -> work.on(node))));
        int next = 0;
        for (String node : nodes) {
          outcomes.put(node, under.get(next++).get());
        }
        return outcomes;
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        throw (InterruptedIOException) new InterruptedIOException("interrupted").initCause(error);
      } catch (ExecutionException error) {
        throw error.getCause() instanceof IOException failure ? failure : new IOException(error.getCause());
      } finally {
        workers.shutdownNow();
      }
    }

    private static Thread thread(Runnable work) {
      Thread thread = new Thread(work, "colocation-write");
      thread.setDaemon(true);
      return thread;
    }
  }
}
