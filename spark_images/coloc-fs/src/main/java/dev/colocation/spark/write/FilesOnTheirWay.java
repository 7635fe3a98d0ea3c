package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.WriteException;
import java.io.Closeable;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;

/** A task's files, each sent as soon as it is complete, while the next one is written. */
final class FilesOnTheirWay implements Closeable {
  private static final int AT_ONCE = 2;

  private final List<List<String>> map;
  private final FileSender sender;
  private final ExecutorService threads = Executors.newFixedThreadPool(AT_ONCE, task -> {
    Thread thread = new Thread(task, "colocation-send");
    thread.setDaemon(true);
    return thread;
  });
  private final Deque<Future<SentFile>> sending = new ArrayDeque<>();
  private final Set<LocalFile> contents = ConcurrentHashMap.newKeySet();
  private final List<SentFile> sent = new ArrayList<>();
  private final AtomicLong nanoseconds = new AtomicLong();
  private long missingCopies;

  FilesOnTheirWay(Destination destination) {
    map = destination.buckets();
    sender = new FileSender(destination);
  }

  /**
   * Sends a file and removes it; waits while too many are on their way.
   *
   * @throws ReplicasMissing when an earlier file could not be sent
   */
  void add(DataFile file, LocalFile content) {
    contents.add(content);
    sending.add(threads.submit(() -> send(file, content)));
    while (sending.size() > AT_ONCE) {
      note(ended(sending.remove()));
    }
  }

  private SentFile send(DataFile file, LocalFile content) throws IOException {
    long started = System.nanoTime();
    try {
      return sender.send(file, content.path());
    } finally {
      content.delete();
      contents.remove(content);
      nanoseconds.addAndGet(System.nanoTime() - started);
    }
  }

  /**
   * All files, when the last one is sent.
   *
   * @throws ReplicasMissing when one could not be sent
   */
  List<SentFile> finish() {
    while (!sending.isEmpty()) {
      note(ended(sending.remove()));
    }
    return List.copyOf(sent);
  }

  private void note(SentFile file) {
    sent.add(file);
    missingCopies += map.get(file.file().bucket()).stream().filter(node -> !file.nodes().contains(node)).count();
  }

  private static SentFile ended(Future<SentFile> future) {
    try {
      return future.get();
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new WriteException("the task was cancelled", error);
    } catch (ExecutionException error) {
      if (error.getCause() instanceof ReplicasMissing missing) {
        throw missing;
      }
      throw new WriteException("a file could not be sent: " + error.getCause(), error.getCause());
    }
  }

  /** Copies of files sent so far that the operator has yet to make. */
  long missingCopies() {
    return missingCopies;
  }

  /** Time spent sending, of all threads. */
  long seconds() {
    return nanoseconds.get() / 1_000_000_000L;
  }

  /** What is still on its way, or waits for its turn, is given up, and removed. */
  @Override
  public void close() {
    threads.shutdownNow();
    contents.forEach(LocalFile::delete);
  }
}
