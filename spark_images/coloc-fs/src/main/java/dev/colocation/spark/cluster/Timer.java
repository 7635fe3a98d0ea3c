package dev.colocation.spark.cluster;

import java.time.Duration;
import java.time.Instant;

/** Clocks and waiting, so that tests need none. */
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
    public void sleep(Duration time) {
      try {
        Thread.sleep(time.toMillis());
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        throw new WriteException("cancelled", error);
      }
    }
  };

  /** Monotonic. */
  long nanos();

  /** The time of day by this node's clock; see {@link Cluster#now}. */
  Instant now();

  /** @throws WriteException when the thread was interrupted */
  void sleep(Duration time);
}
