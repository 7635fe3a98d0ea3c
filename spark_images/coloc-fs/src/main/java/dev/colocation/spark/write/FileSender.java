package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.cluster.WriteException.ReplicasMissing;
import dev.colocation.spark.fs.AgentClient.Folder;
import dev.colocation.spark.write.FileSender.SentFile;
import dev.colocation.spark.write.ParquetFiles.LocalFile;
import java.io.Closeable;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Sends files to the nodes of their buckets. Safe to share between threads.
 *
 * <p>Files of failed, killed or speculative attempts have names of their own, are in no manifest, and are collected as garbage.
 */
public final class FileSender {
  private final Destination destination;
  private final Folder folder;
  private final Agents agents;

  public FileSender(Destination destination) {
    this.destination = destination;
    folder = new Folder(destination.namespace(), destination.directory());
    agents = new Agents(destination.agents(), destination.access());
  }

  /**
   * Sends a file to all nodes of its bucket, and to substitutes for those that do not take it.
   *
   * @param content a local file of {@code file.bytes()} bytes
   * @throws ReplicasMissing when a majority did not take it
   * @throws IOException when the content cannot be read, or the thread was interrupted
   */
  public SentFile send(DataFile file, Path content) throws IOException {
    List<String> nodes = destination.buckets().get(file.bucket());
    Map<String, String> failures = new LinkedHashMap<>(Copies.putOn(agents, folder, nodes, file, content));
    List<String> holders = new ArrayList<>(nodes);
    holders.removeAll(failures.keySet());
    for (String substitute : Copies.substitutesFor(destination.buckets(), file.bucket())) {
      if (holders.size() == nodes.size()) {
        break;
      }
      Map<String, String> failed = Copies.putOn(agents, folder, List.of(substitute), file, content);
      failures.putAll(failed);
      if (failed.isEmpty()) {
        holders.add(substitute);
      }
    }
    int wanted = Copies.majority(nodes.size());
    if (holders.size() < wanted) {
      throw new ReplicasMissing("bucket " + file.bucket() + " of " + folder + ": " + holders.size() + " of " + nodes.size()
          + " nodes took " + file.path() + ", at least " + wanted + " must, and no other node of the group did instead; "
          + Copies.byReason(failures));
    }
    return new SentFile(file, holders);
  }

  /** A file and the nodes that hold it, including substitutes. */
  public record SentFile(DataFile file, List<String> nodes) implements Serializable {
    public SentFile {
      nodes = List.copyOf(nodes);
    }
  }

  /** A task's files, each sent as soon as it is complete, while the next one is written. */
  static final class SendQueue implements Closeable {
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

    SendQueue(Destination destination) {
      map = destination.buckets();
      sender = new FileSender(destination);
    }

    /**
     * Sends a file and removes it; waits while too many are being sent.
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

    /** Time spent sending, summed over threads. */
    long seconds() {
      return nanoseconds.get() / 1_000_000_000L;
    }

    /** Gives up files that are being sent or wait, and removes them. */
    @Override
    public void close() {
      threads.shutdownNow();
      contents.forEach(LocalFile::delete);
    }
  }
}
