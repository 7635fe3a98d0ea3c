package dev.colocation.spark.cluster;

import java.time.Duration;
import java.time.Instant;

/** Virtual time, which passes only while somebody waits. */
public final class FakeTimer implements Timer {
  public Instant now = Instant.parse("2026-11-21T04:00:00Z");
  public Duration waited = Duration.ZERO;
  /** Runs with each wait. */
  public Runnable whileWaiting = () -> {};

  public boolean isCancelled;

  @Override
  public long nanos() {
    return waited.toNanos();
  }

  @Override
  public Instant now() {
    return now;
  }

  @Override
  public boolean sleep(Duration time) {
    waited = waited.plus(time);
    whileWaiting.run();
    return !isCancelled;
  }
}
