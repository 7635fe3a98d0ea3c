package dev.colocation.spark.write;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Work on several nodes side by side. */
final class Parallel {
  private static final int MOST_AT_ONCE = 16;

  private Parallel() {}

  /** Work on one node. */
  interface Work<T> {
    T on(String node) throws IOException;
  }

  /** What came of each node, in their order; the first failure when one failed. */
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
