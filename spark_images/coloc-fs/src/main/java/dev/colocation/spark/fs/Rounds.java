package dev.colocation.spark.fs;

import java.io.InterruptedIOException;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/** Rounds over all replicas, with pauses that grow between them, until a time is over. Counts from the first round's end. */
final class Rounds {
  private static final long FIRST_DELAY_MILLIS = 200;
  private static final long MAX_DELAY_MILLIS = 5000;

  private final long startedAt = System.nanoTime();
  private final Duration deadline;
  private long giveUpAt;
  private long delayMillis = FIRST_DELAY_MILLIS;

  Rounds(Duration deadline) {
    this.deadline = deadline;
  }

  /** Waits before another round; false, at once, when the time is over. */
  boolean waitForAnother() throws InterruptedIOException {
    long now = System.nanoTime();
    giveUpAt = giveUpAt == 0 ? now + deadline.toNanos() : giveUpAt;
    if (now + delayMillis * 1_000_000 > giveUpAt) {
      return false;
    }
    try {
      Thread.sleep(ThreadLocalRandom.current().nextLong(delayMillis / 2, delayMillis + 1));
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw (InterruptedIOException) new InterruptedIOException("interrupted while waiting to read").initCause(error);
    }
    delayMillis = Math.min(2 * delayMillis, MAX_DELAY_MILLIS);
    return true;
  }

  /** For error messages: how long it has been tried. */
  String tried() {
    long seconds = Math.round((System.nanoTime() - startedAt) / 1e9);
    return "Tried for " + seconds + " s (spark.colocation.retrySeconds=" + deadline.toSeconds() + ")";
  }
}
