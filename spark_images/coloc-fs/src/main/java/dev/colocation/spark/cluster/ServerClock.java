package dev.colocation.spark.cluster;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * The time by the {@code Date} of the API server's answers, which goes on between them; {@code server_clock.py} in Java. A driver
 * whose node's clock is a day ahead would drop a table's history with its next commit.
 */
public final class ServerClock {
  private record Told(Instant time, long atNanos) {}

  private final LongSupplier nanos;
  private final Supplier<Instant> local;
  private volatile Told told;

  /**
   * @param nanos monotonic
   * @param local this node's clock, for as long as no answer has said the time
   */
  public ServerClock(LongSupplier nanos, Supplier<Instant> local) {
    this.nanos = nanos;
    this.local = local;
  }

  /** Of an answer; one that does not say the time changes nothing. */
  public void hear(Optional<Instant> time) {
    time.ifPresent(at -> told = new Told(at, nanos.getAsLong()));
  }

  public Instant now() {
    Told last = told;
    return last == null ? local.get() : last.time().plus(Duration.ofNanos(nanos.getAsLong() - last.atNanos()));
  }
}
