package dev.colocation.spark.fs;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Agents that did not answer lately. A node that hangs costs a time limit once, not once per file: until some time has
 * passed the other replicas of its buckets are asked first.
 */
final class RecentFailures {
  /** The one instance of a JVM: all tasks of an executor learn from each other. */
  static final RecentFailures OF_THIS_JVM = new RecentFailures();

  static final Duration MEMORY = Duration.ofSeconds(30);

  private final Map<String, Long> failedAtNanos = new ConcurrentHashMap<>();

  void failed(String url) {
    failedAtNanos.put(url, System.nanoTime());
  }

  void answered(String url) {
    failedAtNanos.remove(url);
  }

  boolean failedLately(String url) {
    Long failedAt = failedAtNanos.get(url);
    return failedAt != null && System.nanoTime() - failedAt < MEMORY.toNanos();
  }
}
