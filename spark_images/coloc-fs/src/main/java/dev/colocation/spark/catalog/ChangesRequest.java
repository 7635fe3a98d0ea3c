package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.ChangesRange.Bound;
import dev.colocation.spark.cluster.ColocationException;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * What a {@code CHANGES} clause asks for, or a read with option {@code readChangeFeed}.
 *
 * @param computesUpdates whether a deleted and an inserted row of one key are shown as an update
 */
record ChangesRequest(ChangesRange range, Deduplication deduplication, boolean computesUpdates) {
  /** The option of a read that asks for changes, as Delta names it; older Sparks have no clause for it. */
  static final String FEED = "readChangeFeed";

  /** Which rows of replaced files are changes; Spark's names. */
  enum Deduplication {
    /** All, also those that the new files have again. */
    NONE("none"),
    /** Those that a commit's new files do not have again. */
    DROP_CARRYOVERS("dropCarryovers"),
    /** Those in which the range's end differs from its begin. */
    NET_CHANGES("netChanges");

    private final String label;

    Deduplication(String label) {
      this.label = label;
    }
  }

  ChangesRequest {
    if (computesUpdates && deduplication == Deduplication.NONE) {
      throw refused("computeUpdates=true with deduplicationMode=none, which shows unchanged rows as deleted and inserted", "dropCarryovers, "
          + "netChanges");
    }
  }

  /**
   * As Spark has parsed it.
   *
   * @param context a {@code ChangelogContext}, which the oldest supported Spark lacks
   */
  static ChangesRequest of(Object context) {
    String mode = ((Enum<?>) ChangesRange.get(context, "deduplicationMode")).name();
    return new ChangesRequest(
        ChangesRange.of(context), Deduplication.valueOf(mode), (boolean) ChangesRange.get(context, "computeUpdates"));
  }

  /** Whether a read's options ask for changes. */
  static boolean isIn(CaseInsensitiveStringMap options) {
    return options.containsKey(FEED) && flag(options, FEED, false);
  }

  /**
   * By the options of a read. They have the names of those of {@code spark.read.changes}. As in Delta, updates are computed unless
   * {@code computeUpdates} is false.
   */
  static ChangesRequest of(CaseInsensitiveStringMap options) {
    Deduplication mode = options.containsKey("deduplicationMode")
        ? deduplication(options.get("deduplicationMode")) : Deduplication.DROP_CARRYOVERS;
    boolean computesUpdates = flag(options, "computeUpdates", mode != Deduplication.NONE);
    return new ChangesRequest(range(options), mode, computesUpdates);
  }

  private static ChangesRange range(CaseInsensitiveStringMap options) {
    Optional<Bound> from = bound(options, "starting");
    if (from.isEmpty()) {
      throw refused(FEED + "=true without a begin", "startingVersion=<snapshot_id> or startingTimestamp='<time>'");
    }
    return new ChangesRange(from.get(), bound(options, "ending"));
  }

  private static Optional<Bound> bound(CaseInsensitiveStringMap options, String which) {
    boolean isInclusive = flag(options, which + "BoundInclusive", true);
    BiFunction<String, Function<String, Bound>, Stream<Bound>> named =
        (name, bound) -> Stream.ofNullable(options.get(which + name)).map(bound);
    List<Bound> given = Stream.concat(
        named.apply("Version", version -> Bound.ofVersion(version, isInclusive)),
        named.apply("Timestamp", time -> new Bound(null, StreamOptions.time(which + "Timestamp", time), isInclusive))).toList();
    if (given.size() > 1) {
      throw refused(which + "Version and " + which + "Timestamp", "one of them");
    }
    return given.stream().findFirst();
  }

  private static Deduplication deduplication(String given) {
    return Arrays.stream(Deduplication.values()).filter(one -> one.label.equalsIgnoreCase(given.strip())).findFirst()
        .orElseThrow(() -> refused("deduplicationMode='" + given + "'",
            Arrays.stream(Deduplication.values()).map(one -> one.label).collect(Collectors.joining(", "))));
  }

  private static boolean flag(CaseInsensitiveStringMap options, String name, boolean otherwise) {
    String given = options.getOrDefault(name, String.valueOf(otherwise)).strip();
    if (!given.equalsIgnoreCase("true") && !given.equalsIgnoreCase("false")) {
      throw refused(name + "='" + given + "'", "true, false");
    }
    return Boolean.parseBoolean(given);
  }

  private static RuntimeException refused(String given, String allowed) {
    return new ColocationException("InvalidOption: " + given + "; allowed: " + allowed).unchecked();
  }
}
