package dev.colocation.spark.write;

import dev.colocation.spark.cluster.Timer;
import java.time.Duration;
import java.time.Instant;

/** Virtual time, which passes only while somebody waits. */
final class FakeTimer implements Timer {
  Instant now = Instant.parse("2026-11-21T04:00:00Z");
  Duration waited = Duration.ZERO;
  /** Runs with each wait. */
  Runnable whileWaiting = () -> {};

  @Override
  public long nanos() {
    return waited.toNanos();
  }

  @Override
  public Instant now() {
    return now;
  }

  @Override
  public void sleep(Duration time) {
    waited = waited.plus(time);
    whileWaiting.run();
  }
}
