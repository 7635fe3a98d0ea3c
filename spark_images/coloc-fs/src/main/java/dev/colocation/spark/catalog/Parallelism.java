package dev.colocation.spark.catalog;

import java.util.Locale;
import java.util.function.UnaryOperator;

/**
 * Whether an application has more cores than a group has buckets; the rule and the words of {@code
 * colocation/model/reader_rules.py}, against which it is tested.
 */
final class Parallelism {
  private static final int DEFAULT_INSTANCES = 2;
  private static final int MAX_DIGITS = 7;

  private Parallelism() {}

  /**
   * The cores that an application's executors have together, by its configuration; 0 = it does not say. Only on Kubernetes:
   * elsewhere the cluster decides. With dynamic allocation: the most that it may get.
   *
   * @param conf key to value; empty when it is not set
   */
  static int configuredCores(UnaryOperator<String> conf) {
    if (!conf.apply("spark.master").strip().startsWith("k8s")) {
      return 0;
    }
    int cores = whole(conf.apply("spark.executor.cores"), 1);
    boolean isDynamic = conf.apply("spark.dynamicAllocation.enabled").strip().toLowerCase(Locale.ROOT).equals("true");
    long executors = isDynamic
        ? whole(conf.apply("spark.dynamicAllocation.maxExecutors"), 0)
        : whole(conf.apply("spark.executor.instances"), DEFAULT_INSTANCES);
    return (int) Math.min(cores * executors, Integer.MAX_VALUE);
  }

  private static int whole(String given, int otherwise) {
    String text = given.strip();
    if (text.isEmpty()) {
      return otherwise;
    }
    return text.length() < MAX_DIGITS && text.chars().allMatch(one -> one >= '0' && one <= '9') ? Integer.parseInt(text) : 0;
  }

  /** What to say where a group has fewer buckets than the application has cores; empty otherwise. */
  static String fewBuckets(String group, int buckets, int cores) {
    return buckets >= cores ? "" : "group " + group + " has " + buckets + " buckets, the application " + cores
        + " cores: at most " + buckets + " tasks scan a table at once";
  }
}
