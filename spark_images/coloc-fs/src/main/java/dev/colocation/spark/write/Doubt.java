package dev.colocation.spark.write;

import dev.colocation.spark.cluster.NoAnswer;
import dev.colocation.spark.cluster.Timer;
import java.time.Duration;

/** Answers that were lost since a commit began: whether there are any, and how long the API server was asked. */
final class Doubt {
  /** How long the API server is asked whether a commit whose answer was lost has happened. */
  static final Duration ANSWER_DEADLINE = Duration.ofSeconds(120);

  private static final Duration FIRST_WAIT = Duration.ofMillis(500);
  private static final Duration LONGEST_WAIT = Duration.ofSeconds(5);

  private final Timer timer;
  private NoAnswer cause;
  private long since;
  private Duration wait = FIRST_WAIT;

  Doubt(Timer timer) {
    this.timer = timer;
  }

  /** Whether an answer was lost. */
  boolean exists() {
    return cause != null;
  }

  /** Why the first one was lost. */
  NoAnswer cause() {
    return cause;
  }

  /** Another answer was lost. */
  void add(NoAnswer lost) {
    if (cause == null) {
      cause = lost;
      since = timer.nanos();
    }
  }

  /** Waits before the next question, each time twice as long; false when the deadline has passed. */
  boolean waitForAnother() {
    if (timer.nanos() - since >= ANSWER_DEADLINE.toNanos()) {
      return false;
    }
    timer.sleep(wait);
    wait = wait.multipliedBy(2).compareTo(LONGEST_WAIT) < 0 ? wait.multipliedBy(2) : LONGEST_WAIT;
    return true;
  }
}
