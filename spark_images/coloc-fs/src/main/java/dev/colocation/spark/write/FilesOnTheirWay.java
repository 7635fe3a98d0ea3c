package dev.colocation.spark.write;

import java.io.Closeable;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;

/** A task's files, each sent as soon as it is complete, while the next one is written. */
final class FilesOnTheirWay implements Closeable {
  private static final int AT_ONCE = 2;

  private final FileSender sender;
  private final ExecutorService threads = Executors.newFixedThreadPool(AT_ONCE, task -> {
    Thread thread = new Thread(task, "colocation-send");
    thread.setDaemon(true);
    return thread;
  });
  private final Deque<Future<SentFile>> sending = new ArrayDeque<>();
  private final List<SentFile> sent = new ArrayList<>();
  private final AtomicLong nanoseconds = new AtomicLong();

  FilesOnTheirWay(FileSender sender) {
    this.sender = sender;
  }

  /**
   * Sends a file and removes it; waits while too many are on their way.
   *
   * @throws ReplicasMissing when an earlier file could not be sent
   */
  void add(DataFile file, LocalFile content) throws ReplicasMissing {
    sending.add(threads.submit(() -> send(file, content)));
    while (sending.size() > AT_ONCE) {
      sent.add(ended(sending.remove()));
    }
  }

  private SentFile send(DataFile file, LocalFile content) throws IOException {
    long started = System.nanoTime();
    try {
      return sender.send(file, content.path());
    } finally {
      content.delete();
      nanoseconds.addAndGet(System.nanoTime() - started);
    }
  }

  /**
   * All files, when the last one is sent.
   *
   * @throws ReplicasMissing when one could not be sent
   */
  List<SentFile> finish() throws ReplicasMissing {
    while (!sending.isEmpty()) {
      sent.add(ended(sending.remove()));
    }
    return List.copyOf(sent);
  }

  private static SentFile ended(Future<SentFile> future) throws ReplicasMissing {
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

  /** Files that have been sent so far. */
  List<SentFile> sent() {
    return sent;
  }

  /** Time spent sending, of all threads. */
  long seconds() {
    return nanoseconds.get() / 1_000_000_000L;
  }

  /** What is still on its way is given up. */
  @Override
  public void close() {
    threads.shutdownNow();
  }
}
