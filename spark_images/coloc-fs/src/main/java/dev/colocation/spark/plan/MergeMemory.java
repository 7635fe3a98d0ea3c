package dev.colocation.spark.plan;

import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.fs.Manifest;
import java.util.List;
import java.util.function.BinaryOperator;
import java.util.function.ToLongFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.network.util.JavaUtils;

/** How much a task may merge. A reader holds up to a row group of its columns in memory, which no memory manager counts. */
public final class MergeMemory {
  /** So many chains of files are read side by side at most. */
  private static final int MOST_CHAINS = 64;
  private static final long MOST_BYTES = 512L << 20;
  private static final long OLD_ROW_GROUP_BYTES = 128L << 20;
  /** Of a task's memory: a join has two sides, and Spark's own operators have the larger half. */
  private static final int SHARE = 10;

  /** One JVM: {@code local}, {@code local[4]}, {@code local[*]}, {@code local[4,3]}. */
  private static final Pattern LOCAL = Pattern.compile("local(?:\\[(\\*|\\d+)(?:,\\d+)?\\])?");

  private MergeMemory() {}

  /**
   * Bytes that the readers of one sorted input may hold in a task: a tenth of what an executor has for each of the tasks that it
   * runs at once, at most 512 MiB.
   *
   * @param conf of the application: the value of a key, or what is given for a key that it does not have. Executors have one core
   *     where it does not say how many, as on Kubernetes
   * @param processors of this JVM
   */
  public static long mostBytes(BinaryOperator<String> conf, int processors) {
    Matcher local = LOCAL.matcher(conf.apply("spark.master", ""));
    boolean isLocal = local.matches();
    String memory = conf.apply(isLocal ? "spark.driver.memory" : "spark.executor.memory", "1g");
    int cores = isLocal ? threads(local.group(1), processors) : Integer.parseInt(conf.apply("spark.executor.cores", "1"));
    int tasks = Math.max(1, cores / Math.max(1, Integer.parseInt(conf.apply("spark.task.cpus", "1"))));
    return Math.min(MOST_BYTES, (JavaUtils.byteStringAsMb(memory) << 20) / SHARE / tasks);
  }

  /** The same for this application. */
  public static long mostBytes(SparkConf conf) {
    return mostBytes(conf::get, Runtime.getRuntime().availableProcessors());
  }

  /**
   * Whether chains of files are read side by side; a single one always is. A chain has one file open at a time.
   *
   * @param heldBytes of a file, see {@link #heldBytes}
   * @param mostBytes see {@link #mostBytes}
   */
  public static <F> boolean fits(List<List<F>> chains, ToLongFunction<F> heldBytes, long mostBytes) {
    long held = chains.stream().mapToLong(
        chain -> chain.stream().mapToLong(heldBytes).max().orElse(0)).sum();
    return chains.size() <= 1 || chains.size() <= MOST_CHAINS && held <= mostBytes;
  }

  /** What a reader, or the writer, holds of a file at most: one row group, or all of a smaller file. */
  public static long heldBytes(long fileBytes) {
    return Math.min(fileBytes, Manifest.ROW_GROUP_BYTES);
  }

  /** The same of a file that may be old: files without keys had larger row groups. */
  public static long heldBytes(long fileBytes, KeyRange keys) {
    return keys.columns() > 0 ? heldBytes(fileBytes) : Math.min(fileBytes, OLD_ROW_GROUP_BYTES);
  }

  private static int threads(String given, int processors) {
    return given == null ? 1 : given.equals("*") ? processors : Integer.parseInt(given);
  }
}
