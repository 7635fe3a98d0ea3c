package dev.colocation.spark.cluster;

import java.time.Duration;
import java.time.Instant;

/** Clocks and waiting; tests replace it, so that they do not wait. */
public interface Timer {
  Timer REAL = new Timer() {
    @Override
    public long nanos() {
      return System.nanoTime();
    }

    @Override
    public Instant now() {
      return Instant.now();
    }

    @Override
    public boolean sleep(Duration time) {
      try {
        Thread.sleep(time.toMillis());
        return true;
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        return false;
      }
    }
  };

  /** Monotonic. */
  long nanos();

  /** The time of day by this node's clock; see {@link KubernetesApi.ServerClock}. */
  Instant now();

  /** Waits; false when the thread was interrupted, that is when the statement was cancelled. */
  boolean sleep(Duration time);

  /**
   * Waits.
   *
   * @throws WriteException when the thread was interrupted
   */
  default void pause(Duration time) {
    if (!sleep(time)) {
      throw new WriteException("cancelled");
    }
  }
}
