package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Options that choose a snapshot: all of them as the two that Spark reads itself. */
final class SnapshotOptions {
  private static final String VERSION = "versionAsOf";
  private static final String TIME = "timestampAsOf";
  private static final String ICEBERGS_VERSION = "snapshot-id";
  private static final String ICEBERGS_TIME = "as-of-timestamp";
  private static final List<String> NAMES = List.of(ICEBERGS_TIME, ICEBERGS_VERSION, TIME, VERSION);

  private SnapshotOptions() {}

  /** Refuses a read whose options choose a snapshot under names that Spark does not read. */
  static void requireSparks(String table, CaseInsensitiveStringMap options) {
    if (!asSparks(options).equals(options)) {
      throw new ColocationException("InvalidOption: " + table + " is read with " + ICEBERGS_VERSION + " or " + ICEBERGS_TIME
          + ", which is done for names of a ColocationCatalog only: use " + VERSION + " or " + TIME).unchecked();
    }
  }

  /**
   * The options with Spark's own ones in the place of others.
   *
   * @throws ColocationException (unchecked) when they choose two snapshots
   */
  static CaseInsensitiveStringMap asSparks(CaseInsensitiveStringMap options) {
    SQLConf conf = SQLConf.get();
    return asSparks(options, conf.getConfString("spark.sql.timeTravelVersionKey", VERSION),
        conf.getConfString("spark.sql.timeTravelTimestampKey", TIME));
  }

  /** {@code version} and {@code time}: the names that Spark reads. */
  static CaseInsensitiveStringMap asSparks(CaseInsensitiveStringMap options, String version, String time) {
    List<String> given = NAMES.stream().filter(options::containsKey).toList();
    if (given.isEmpty()) {
      return options;
    }
    Map<String, String> chosen = new TreeMap<>();
    for (String name : given) {
      boolean isVersion = name.equals(VERSION) || name.equals(ICEBERGS_VERSION);
      String value = name.equals(ICEBERGS_TIME) ? time(options.get(name)) : options.get(name);
      chosen.merge(isVersion ? version : time, value, (one, other) -> one.equals(other) ? one : refuseBoth(given, options));
    }
    if (chosen.size() > 1) {
      refuseBoth(given, options);
    }
    Map<String, String> all = new TreeMap<>(options.asCaseSensitiveMap());
    all.keySet().removeIf(name -> NAMES.stream().anyMatch(name::equalsIgnoreCase));
    all.putAll(chosen);
    return new CaseInsensitiveStringMap(all);
  }

  private static String refuseBoth(List<String> given, CaseInsensitiveStringMap options) {
    throw new ColocationException("InvalidOption: options " + given.stream()
        .map(name -> name + "='" + options.get(name) + "'").collect(Collectors.joining(" and "))
        + " choose different snapshots; give one of them").unchecked();
  }

  private static String time(String milliseconds) {
    try {
      return Instant.ofEpochMilli(Long.parseLong(milliseconds)).toString();
    } catch (NumberFormatException | DateTimeException error) {
      throw new ColocationException("InvalidOption: " + ICEBERGS_TIME + "='" + milliseconds
          + "'; allowed: milliseconds since 1970-01-01 UTC, or use " + TIME + "='<time>'").unchecked();
    }
  }
}
