package dev.colocation.spark.write;

import dev.colocation.spark.cluster.InvalidOption;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Which rows an overwrite replaces, as far as its options say.
 *
 * @param where a condition of partition columns
 * @param isDynamic whether those of the partitions that the new rows are in; empty = not said
 */
public record ReplacedRows(Optional<String> where, Optional<Boolean> isDynamic) {
  public static final String WHERE = "replaceWhere";

  private static final List<String> MODES = List.of("partitionOverwriteMode", "overwrite-mode");
  private static final String DYNAMIC = "dynamic";
  private static final String STATIC = "static";

  /**
   * Reads them.
   *
   * @throws InvalidOption for what is no value of an option, and for options that contradict each other
   */
  public static ReplacedRows of(CaseInsensitiveStringMap options) {
    Optional<String> where = Optional.ofNullable(options.get(WHERE));
    List<Boolean> modes = MODES.stream().filter(options::containsKey).map(name -> isDynamic(name, options.get(name))).distinct().toList();
    if (modes.size() > 1) {
      throw new InvalidOption(MODES.get(1) + "='" + options.get(MODES.get(1)) + "' and " + MODES.get(0) + "='"
          + options.get(MODES.get(0)) + "' contradict each other; give one of them");
    }
    if (where.isPresent() && modes.contains(true)) {
      throw new InvalidOption(WHERE + "='" + where.get() + "' and partitionOverwriteMode (or overwrite-mode) 'dynamic' contradict "
          + "each other; give one of them");
    }
    return new ReplacedRows(where, modes.stream().findFirst());
  }

  private static boolean isDynamic(String name, String value) {
    if (!DYNAMIC.equalsIgnoreCase(value) && !STATIC.equalsIgnoreCase(value)) {
      throw new InvalidOption(name + "='" + value + "'; allowed: dynamic, static");
    }
    return DYNAMIC.equalsIgnoreCase(value);
  }
}
