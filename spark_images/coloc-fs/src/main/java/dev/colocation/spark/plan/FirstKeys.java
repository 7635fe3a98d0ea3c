package dev.colocation.spark.plan;

import java.io.Serializable;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.NullType$;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Of scans that are joined in one task, the key with which a scan begins: rows of the join's other side that are below it have no match,
 * so that side's files are read from there on ({@link SkipAhead}).
 *
 * @param own by which name others ask for this scan's first key; empty when none does
 * @param asked the names of scans below whose first key no row of this one is needed
 * @param column of the key in the scan's rows
 * @param type of the key
 */
record FirstKeys(String own, List<String> asked, int column, DataType type) implements Serializable {
  static final FirstKeys NONE = new FirstKeys("", List.of(), -1, NullType$.MODULE$);

  private static final Map<TaskContext, Map<String, Source>> OF_TASKS = new ConcurrentHashMap<>();

  /** Rows in the order of their keys. */
  interface Source {
    /** The first row's key; null when there is no row, or its key is NULL. Reads the first rows, if need be, and keeps them. */
    Object firstKey();
  }

  /** The same with a name, by which others may ask. */
  FirstKeys named() {
    return own.isEmpty() ? new FirstKeys(UUID.randomUUID().toString(), asked, column, type) : this;
  }

  /** The same that asks this one, too. */
  FirstKeys asking(FirstKeys other) {
    return new FirstKeys(own, Stream.concat(asked.stream(), Stream.of(other.own)).distinct().toList(), column, type);
  }

  /** The same in one of several ranges of the buckets. */
  FirstKeys in(int range) {
    return new FirstKeys(own.isEmpty() ? own : name(own, range), asked.stream().map(one -> name(one, range)).toList(), column, type);
  }

  /** The same for comparisons of plans, in which names differ. */
  FirstKeys canonical() {
    return new FirstKeys(own.isEmpty() ? "" : "own", asked.stream().map(one -> "").toList(), column, type);
  }

  /** From now on the task's other scans of this bucket may ask for the first key. */
  void give(TaskContext context, int bucket, Source source) {
    if (!own.isEmpty()) {
      OF_TASKS.computeIfAbsent(context, FirstKeys::untilItEnds).put(name(own, bucket), source);
    }
  }

  /** The least key that this scan's rows of the bucket need to have, as Spark's filters have it; null when none is known. */
  Object least(TaskContext context, int bucket) {
    Map<String, Source> known = OF_TASKS.getOrDefault(context, Map.of());
    Object least = asked.stream().map(one -> known.get(name(one, bucket))).filter(Objects::nonNull).map(Source::firstKey)
        .filter(Objects::nonNull).max(FirstKeys::compare).orElse(null);
    return CatalystTypeConverters.convertToScala(least, type);
  }

  @SuppressWarnings("unchecked") // values of one type, all of which Spark compares by themselves
  private static int compare(Object one, Object other) {
    return ((Comparator<Object>) (Comparator<?>) Comparator.naturalOrder()).compare(one, other);
  }

  private static String name(String scan, int part) {
    return scan + "/" + part;
  }

  private static Map<String, Source> untilItEnds(TaskContext context) {
    context.addTaskCompletionListener((TaskCompletionListener) OF_TASKS::remove);
    return new ConcurrentHashMap<>();
  }
}
