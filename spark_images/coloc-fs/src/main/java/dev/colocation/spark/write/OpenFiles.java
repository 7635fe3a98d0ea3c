package dev.colocation.spark.write;

import java.io.IOException;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.ToLongFunction;

/**
 * The files that a task writes at once, by their keys: within a bound of their number and, where they are weighed, of memory.
 *
 * @param <K> what the rows of a file have in common
 */
final class OpenFiles<K, F> {
  static final int MOST = 100;
  /** Files are weighed again after rows of so much of the memory that they may hold: an eighth. */
  static final int SHARE_BETWEEN_WEIGHINGS = 8;

  private final Map<K, F> files = new LinkedHashMap<>();
  private final ToLongFunction<F> heldBytes;
  private final End<F> end;
  private long weighedAtBytes;

  /** Completes a file. */
  interface End<F> {
    void of(F file) throws IOException;
  }

  /**
   * No files yet.
   *
   * @param heldBytes memory that a file takes
   */
  OpenFiles(ToLongFunction<F> heldBytes, End<F> end) {
    this.heldBytes = heldBytes;
    this.end = end;
  }

  /** The file of a key; null = none is open. */
  F get(K key) {
    return files.get(key);
  }

  /** Opens a file, for which the largest one may end. */
  void add(K key, F file) throws IOException {
    if (files.size() >= MOST) {
      endLargest();
    }
    files.put(key, file);
  }

  long sum(ToLongFunction<F> bytes) {
    return files.values().stream().mapToLong(bytes).sum();
  }

  /**
   * Ends the largest files until the others fit; their keys go on in new ones.
   *
   * @param rowBytes of the task's rows so far, in memory
   * @param mostBytes that files may hold, unless it is a single one
   */
  void weigh(long rowBytes, long mostBytes) throws IOException {
    if (rowBytes - weighedAtBytes < mostBytes / SHARE_BETWEEN_WEIGHINGS) {
      return;
    }
    weighedAtBytes = rowBytes;
    while (files.size() > 1 && sum(heldBytes) > mostBytes) {
      endLargest();
    }
  }

  private void endLargest() throws IOException {
    end(files.entrySet().stream()
        .max(Comparator.comparingLong(entry -> heldBytes.applyAsLong(entry.getValue()))).orElseThrow().getKey());
  }

  /** Ends the file of a key. */
  void end(K key) throws IOException {
    end.of(files.remove(key));
  }

  /** Ends all files, in the order in which they were opened. */
  void endAll() throws IOException {
    while (!files.isEmpty()) {
      end(files.keySet().iterator().next());
    }
  }

  /** Gives all files up. */
  void abandon(Consumer<F> each) {
    files.values().forEach(each);
    files.clear();
  }
}
