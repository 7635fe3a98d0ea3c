package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.GroupObject;
import dev.colocation.spark.cluster.Names;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Whether a table is read bucket by bucket, or in the ordinary way and why; the reasons are Doris's words. A row's bucket is a
 * property of the data, so a bucketed plan is right at any time; this only decides whether it pays.
 *
 * @param bucketed false: Spark sees an ordinary table, for {@code reason}
 * @param note what qualifies a bucketed read
 */
public record ReadDecision(boolean bucketed, String reason, String note) {
  static final String SESSION_DISABLED = "Session disabled";
  static final String NOT_STABLE = "group is not stable";
  static final String SILENCE = "OperatorSilent: ";
  static final String NO_GROUP = "Tables are not in the same group";
  static final String INCONSISTENT = "Inconsistent distribution of table and queries";

  private static final String BUCKETING = "spark.sql.sources.bucketing.enabled";

  private static final int MAX_NAMED_BUCKETS = 3;

  /** What the session asked for. */
  public record Switches(boolean joinDisabled, boolean bucketingDisabled, WhenUnstable whenUnstable) {
    private static final String DISABLED = "spark.colocation.disableColocateJoin";
    private static final String WHEN_UNSTABLE = "spark.colocation.whenUnstable";

    /** The session's, as they stand now. */
    static Switches of(SQLConf conf) {
      return new Switches(
          chosen(conf, DISABLED, List.of("false", "true")) == 1,
          !conf.bucketingEnabled(),
          WhenUnstable.values()[chosen(conf, WHEN_UNSTABLE, List.of("live", "shuffle", "colocated"))]);
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

  /** How tables of a group that is not stable are read; the first one is the default. */
  public enum WhenUnstable {
    /** Bucket by bucket as long as every bucket has a live replica. */
    LIVE,
    /** In the ordinary way: the rule of Doris and StarRocks. */
    SHUFFLE,
    /** Bucket by bucket, whatever is known. */
    COLOCATED
  }

  /** The same with one more note, where it reads buckets and there is something to remark. */
  ReadDecision noting(String remark) {
    if (!bucketed || remark.isEmpty()) {
      return this;
    }
    return new ReadDecision(true, reason, note.isEmpty() ? remark : note + "; " + remark);
  }

  /**
   * How to read a table.
   *
   * @param group empty when the table is in no group
   * @param refusal why the operator refuses the table; empty when it is accepted
   * @param inconsistency how the table's files differ from the group's schema; empty when they do not
   * @param silence why the operator's verdict on the group does not hold; empty when it does
   * @param ready nodes whose agents are ready
   */
  static ReadDecision decide(
      Switches switches, Optional<GroupObject> group, String refusal, String inconsistency, String silence,
      Set<String> ready) {
    if (switches.joinDisabled()) {
      return ordinary(SESSION_DISABLED);
    }
    if (switches.bucketingDisabled()) {
      return ordinary(SESSION_DISABLED + ": " + BUCKETING + "=false");
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
    String unstable = !silence.isEmpty() ? SILENCE + silence : instability(group.get());
    if (unstable.isEmpty()) {
      return new ReadDecision(true, "", "");
    }
    String reason = NOT_STABLE + ": " + unstable;
    Liveness alive = switches.whenUnstable() == WhenUnstable.LIVE && silence.isEmpty()
        ? Liveness.of(group.get(), ready)
        : new Liveness(switches.whenUnstable() == WhenUnstable.COLOCATED, "");
    if (alive.isWhole()) {
      return new ReadDecision(true, "", reason + "; buckets are read from live replicas");
    }
    return ordinary(alive.message().isEmpty() ? reason : reason + "; " + alive.message());
  }

  static ReadDecision ordinary(String reason) {
    return new ReadDecision(false, reason, "");
  }

  /** Why the group is not stable, with its first buckets; empty when it is. */
  private static String instability(GroupObject group) {
    if (group.stable().isEmpty()) {
      return "the operator has not reported on it yet";
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
