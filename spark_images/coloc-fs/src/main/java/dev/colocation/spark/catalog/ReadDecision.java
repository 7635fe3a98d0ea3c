package dev.colocation.spark.catalog;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Whether a table is read bucket by bucket, or in the ordinary way and why; the rule and the words of {@code
 * colocation/spark/decision.py}, against which it is tested.
 *
 * @param bucketed false: Spark sees an ordinary table, for {@code reason}
 * @param note what qualifies a bucketed read
 */
public record ReadDecision(boolean bucketed, String reason, String note) {
  static final String SESSION_DISABLED = "Session disabled";
  static final String NOT_STABLE = "group is not stable";
  static final String NO_GROUP = "Tables are not in the same group";
  static final String INCONSISTENT = "Inconsistent distribution of table and queries";

  private static final int MAX_NAMED_BUCKETS = 3;

  /** What the session and the submitter asked for. */
  public record Switches(boolean joinDisabled, boolean colocateWhenUnstable, String degradeReason) {
    private static final String DISABLED = "spark.colocation.disableColocateJoin";
    private static final String WHEN_UNSTABLE = "spark.colocation.whenUnstable";
    private static final String DEGRADE_REASON = "spark.colocation.degradeReason";

    /** The session's, as they stand now. */
    static Switches of(SQLConf conf) {
      return new Switches(
          chosen(conf, DISABLED, List.of("false", "true")) == 1,
          chosen(conf, WHEN_UNSTABLE, List.of("shuffle", "colocated")) == 1,
          conf.getConfString(DEGRADE_REASON, ""));
    }

    /** Which of the allowed values is set; the first one when none is. */
    private static int chosen(SQLConf conf, String key, List<String> allowed) {
      String value = conf.getConfString(key, "");
      int found = allowed.indexOf(value.isEmpty() ? allowed.get(0) : Names.lowerCase(value));
      if (found < 0) {
        throw new ColocationException(key + "='" + value + "'; allowed: " + String.join(", ", allowed)).unchecked();
      }
      return found;
    }
  }

  /**
   * How to read a table.
   *
   * @param group empty when the table is in no group
   * @param refusal why the operator refuses the table; empty when it is accepted
   * @param inconsistency how the table's files differ from the group's schema; empty when they do not
   * @param silence why the operator's verdict on the group does not hold; empty when it does
   */
  static ReadDecision decide(
      Switches switches, Optional<GroupObject> group, String refusal, String inconsistency, String silence) {
    if (switches.joinDisabled()) {
      return ordinary(SESSION_DISABLED);
    }
    if (group.isEmpty()) {
      return ordinary(NO_GROUP + ": the table is in no group");
    }
    if (!refusal.isEmpty()) {
      return ordinary(NO_GROUP + ": the table is not accepted: " + refusal);
    }
    if (!inconsistency.isEmpty()) {
      return ordinary(INCONSISTENT + ": " + inconsistency);
    }
    String unstable = !switches.degradeReason().isEmpty() ? switches.degradeReason()
        : !silence.isEmpty() ? "OperatorSilent: " + silence : instability(group.get());
    if (unstable.isEmpty()) {
      return new ReadDecision(true, "", "");
    }
    String reason = unstable.startsWith(NOT_STABLE) ? unstable : NOT_STABLE + ": " + unstable;
    return switches.colocateWhenUnstable()
        ? new ReadDecision(true, "", reason + "; buckets are read from live replicas")
        : ordinary(reason);
  }

  private static ReadDecision ordinary(String reason) {
    return new ReadDecision(false, reason, "");
  }

  /** Why the group is not stable, with its first buckets; empty when it is. */
  private static String instability(GroupObject group) {
    if (group.stable().isEmpty()) {
      return "the operator has not judged it yet";
    }
    if (group.stable().get()) {
      return "";
    }
    List<String> parts = new ArrayList<>();
    parts.add(group.reason().isEmpty() ? "ReplicaMissing" : group.reason());
    group.unstableBuckets().stream().limit(MAX_NAMED_BUCKETS).map(ReadDecision::named).forEach(parts::add);
    int named = parts.size() - 1;
    int total = group.unstableBucketCount() > 0 ? group.unstableBucketCount() : group.unstableBuckets().size();
    if (total > named) {
      parts.add(named > 0 ? "and " + (total - named) + " more buckets" : total + " buckets");
    }
    return String.join("; ", parts);
  }

  private static String named(GroupObject.UnstableBucket bucket) {
    return ("bucket " + bucket.bucket() + " " + bucket.reason() + ": " + bucket.message()).replaceAll("[: ]+$", "");
  }
}
