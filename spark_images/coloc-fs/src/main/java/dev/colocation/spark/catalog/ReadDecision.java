package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.ColocationGroup;
import dev.colocation.spark.cluster.Names;
import dev.colocation.spark.explain.Reasons;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Whether a table is read bucket by bucket, or as an ordinary table and why; the reasons are those of Doris. A row's bucket is a
 * property of the data, so a bucketed plan is always correct; this only decides whether it is faster.
 *
 * @param bucketed false: Spark sees an ordinary table, for {@code reason}
 * @param note a remark on a bucketed read
 */
public record ReadDecision(boolean bucketed, String reason, String note) {
  static final String SILENCE = "OperatorSilent: ";

  private static final String BUCKETING = "spark.sql.sources.bucketing.enabled";

  private static final int MAX_NAMED_BUCKETS = 3;

  /** The session's settings. */
  public record Switches(boolean joinDisabled, boolean bucketingDisabled, WhenUnstable whenUnstable) {
    private static final String DISABLED = "spark.colocation.disableColocateJoin";
    private static final String WHEN_UNSTABLE = "spark.colocation.whenUnstable";

    /** The session's present settings. */
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
    /** As ordinary tables: the rule of Doris and StarRocks. */
    SHUFFLE,
    /** Always bucket by bucket. */
    COLOCATED
  }

  /** The same with one more note, if it reads buckets and the note is not empty. */
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
   * @param silence why the operator's report on the group is not fresh; empty when it is
   * @param ready nodes whose agents are ready
   */
  static ReadDecision decide(
      Switches switches, Optional<ColocationGroup> group, String refusal, String inconsistency, String silence,
      Set<String> ready) {
    if (switches.joinDisabled()) {
      return ordinary(Reasons.SESSION_DISABLED);
    }
    if (switches.bucketingDisabled()) {
      return ordinary(Reasons.SESSION_DISABLED + ": " + BUCKETING + "=false");
    }
    if (group.isEmpty()) {
      return ordinary(Reasons.NO_GROUP + ": the table is in no group");
    }
    if (!refusal.isEmpty()) {
      return ordinary(Reasons.NO_GROUP + ": the table is not accepted: " + refusal);
    }
    if (!inconsistency.isEmpty()) {
      return ordinary(Reasons.INCONSISTENT + ": " + inconsistency);
    }
    String unstable = !silence.isEmpty() ? SILENCE + silence : instability(group.get());
    if (unstable.isEmpty()) {
      return new ReadDecision(true, "", "");
    }
    String reason = Reasons.NOT_STABLE + ": " + unstable;
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
  private static String instability(ColocationGroup group) {
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

  private static String named(ColocationGroup.UnstableBucket bucket) {
    return ("bucket " + bucket.bucket() + " " + bucket.reason() + ": " + bucket.message()).replaceAll("[:. ]+$", "");
  }

  /**
   * Whether every bucket of a group can be read now, by the operator's reports; the rule and the messages of {@code
   * colocation/model/reader_rules.py}, against which it is tested.
   *
   * @param isWhole every bucket has a live replica
   * @param message which have none; empty when all have one, or when the group's own reason explains it
   */
  record Liveness(boolean isWhole, String message) {
    static final Liveness UNKNOWN = new Liveness(false, "");

    private static final int MAX_NAMED_BUCKETS = 3;
    private static final String COMPLETE = "complete";

    /**
     * Counts replicas on nodes of each bucket's row whose agents are ready, unless the status reports that they are not complete.
     *
     * @param group of an operator whose reports are fresh
     * @param ready nodes whose agents are ready
     */
    static Liveness of(ColocationGroup group, Set<String> ready) {
      List<List<String>> rows = group.buckets();
      if (group.stable().isEmpty() || rows.isEmpty() || group.reason().equals("MarkedUnstable")) {
        return UNKNOWN;
      }
      Map<Integer, Map<String, String>> reported = group.unstableBuckets().stream().collect(
          Collectors.toMap(ColocationGroup.UnstableBucket::bucket, ColocationGroup.UnstableBucket::replicas, (first, last) -> last));
      List<Integer> dead = IntStream.range(0, rows.size()).boxed()
          .filter(bucket -> rows.get(bucket).stream().noneMatch(node -> ready.contains(node)
              && reported.getOrDefault(bucket, Map.of()).getOrDefault(node, COMPLETE).equals(COMPLETE)))
          .toList();
      return dead.isEmpty() ? new Liveness(true, "") : new Liveness(false, "NoLiveReplica: " + listed(dead));
    }

    /** {@code bucket 3}, {@code buckets 0, 3, 5}, or {@code buckets 0, 1, 2 and 7 more}. */
    private static String listed(List<Integer> buckets) {
      String shown = buckets.stream().limit(MAX_NAMED_BUCKETS).map(String::valueOf).collect(Collectors.joining(", "));
      int more = buckets.size() - MAX_NAMED_BUCKETS;
      return (buckets.size() == 1 ? "bucket " : "buckets ") + shown + (more > 0 ? " and " + more + " more" : "");
    }
  }

  /** The kind of a {@link ReadDecision}, with a counter of this application's decisions. */
  public enum Verdict {
    /** The table is read bucket by bucket. */
    COLOCATED("colocated"),
    /** Its group is not stable, and some bucket has no live replica. */
    NOT_STABLE("notStable"),
    /** The operator has given no sign of life for too long, so the group's state is unknown. */
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
      if (reason.startsWith(Reasons.SESSION_DISABLED)) {
        return DISABLED;
      }
      if (reason.startsWith(Reasons.NO_GROUP)) {
        return NO_GROUP;
      }
      if (reason.startsWith(Reasons.INCONSISTENT)) {
        return INCONSISTENT;
      }
      return reason.startsWith(Reasons.NOT_STABLE + ": " + ReadDecision.SILENCE) ? OPERATOR_SILENT : NOT_STABLE;
    }
  }

  /**
   * Whether an application has more cores than a group has buckets; the rule and the messages of {@code
   * colocation/model/reader_rules.py}, against which it is tested.
   */
  static final class Parallelism {
    private static final int DEFAULT_INSTANCES = 2;
    private static final int MAX_DIGITS = 7;

    private Parallelism() {}

    /**
     * The cores that an application's executors have together, by its configuration; 0 = unknown. Only on Kubernetes:
     * elsewhere the cluster decides. With dynamic allocation: the maximum.
     *
     * @param conf key to value; empty when it is not set
     */
    static int configuredCores(UnaryOperator<String> conf) {
      if (!conf.apply("spark.master").trim().startsWith("k8s")) {
        return 0;
      }
      int cores = whole(conf.apply("spark.executor.cores"), 1);
      boolean isDynamic = conf.apply("spark.dynamicAllocation.enabled").trim().toLowerCase(Locale.ROOT).equals("true");
      long executors = isDynamic
          ? whole(conf.apply("spark.dynamicAllocation.maxExecutors"), 0)
          : whole(conf.apply("spark.executor.instances"), DEFAULT_INSTANCES);
      return (int) Math.min(cores * executors, Integer.MAX_VALUE);
    }

    private static int whole(String given, int otherwise) {
      String text = given.trim();
      if (text.isEmpty()) {
        return otherwise;
      }
      return text.length() < MAX_DIGITS && text.chars().allMatch(one -> one >= '0' && one <= '9') ? Integer.parseInt(text) : 0;
    }

    /** The note for a group that has fewer buckets than the application has cores; empty otherwise. */
    static String fewBuckets(String group, int buckets, int cores) {
      return tooFew("group " + group, buckets, cores);
    }

    /** The same for a table that has more buckets than its group. */
    static String fewBucketsOfTable(String table, int buckets, int cores) {
      return tooFew("table " + table, buckets, cores);
    }

    private static String tooFew(String what, int buckets, int cores) {
      return buckets >= cores ? "" : what + " has " + buckets + " buckets, the application " + cores
          + " cores: only large files that are sorted by the bucket key are read by more than " + buckets + " tasks";
    }
  }
}
