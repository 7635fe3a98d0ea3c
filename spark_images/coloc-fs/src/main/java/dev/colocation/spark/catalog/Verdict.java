package dev.colocation.spark.catalog;

import java.util.concurrent.atomic.LongAdder;

/** What a {@link ReadDecision} comes to, in one word, and how often it was made in this application. */
public enum Verdict {
  /** The table is read bucket by bucket. */
  COLOCATED("colocated"),
  /** Its group is not stable, and some bucket has no live replica. */
  NOT_STABLE("notStable"),
  /** The operator has given no sign of life for so long that nobody knows. */
  OPERATOR_SILENT("operatorSilent"),
  /** It is in no group, or not accepted. */
  NO_GROUP("noGroup"),
  /** Its files do not fit the group's schema. */
  INCONSISTENT("inconsistent"),
  /** The session asks for no colocated joins. */
  DISABLED("disabled");

  private final String word;
  private final LongAdder count = new LongAdder();

  Verdict(String word) {
    this.word = word;
  }

  /** Its name in metrics. */
  public String word() {
    return word;
  }

  /** How often it was made since the application started. */
  public long total() {
    return count.sum();
  }

  void count() {
    count.increment();
  }

  /** In local mode one JVM may run several applications one after the other. */
  public static void clear() {
    for (Verdict verdict : values()) {
      verdict.count.reset();
    }
  }

  static Verdict of(ReadDecision decision) {
    if (decision.bucketed()) {
      return COLOCATED;
    }
    String reason = decision.reason();
    if (reason.startsWith(ReadDecision.SESSION_DISABLED)) {
      return DISABLED;
    }
    if (reason.startsWith(ReadDecision.NO_GROUP)) {
      return NO_GROUP;
    }
    if (reason.startsWith(ReadDecision.INCONSISTENT)) {
      return INCONSISTENT;
    }
    return reason.startsWith(ReadDecision.NOT_STABLE + ": " + ReadDecision.SILENCE) ? OPERATOR_SILENT : NOT_STABLE;
  }
}
