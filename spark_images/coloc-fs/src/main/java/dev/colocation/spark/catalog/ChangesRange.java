package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Snapshot;
import java.lang.reflect.InvocationTargetException;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Optional;
import java.util.function.BiFunction;
import java.util.function.Predicate;

/**
 * The commits that a {@code CHANGES} clause names. Pure.
 *
 * <p>Invariant: ranges that meet in one bound, once inclusive and once exclusive, have every commit once.
 *
 * @param to empty = the newest commit
 */
record ChangesRange(Bound from, Optional<Bound> to) {
  private static final String ID = "[0-9]{1,18}";

  /** One of them is given: a snapshot's id, 0 for the table before its first commit, or a time. */
  record Bound(String version, Instant time, boolean isInclusive) {
    static Bound ofVersion(String version, boolean isInclusive) {
      return new Bound(version.strip(), null, isInclusive);
    }

    static Bound ofTime(long microseconds, boolean isInclusive) {
      return new Bound(null, Instant.EPOCH.plus(microseconds, ChronoUnit.MICROS), isInclusive);
    }

    /** The newest commit before the bound, or at it; 0 where none is known. */
    private long newest(List<Snapshot> kept, boolean orAtIt) {
      if (time == null) {
        return Long.parseLong(version) - (orAtIt ? 0 : 1);
      }
      Predicate<Snapshot> isBefore = one -> orAtIt ? !one.committedAt().isAfter(time) : one.committedAt().isBefore(time);
      return kept.stream().filter(isBefore).mapToLong(Snapshot::id).max().orElse(0);
    }

    @Override
    public String toString() {
      return (time == null ? "VERSION '" + version + "'" : "TIMESTAMP '" + time + "'") + (isInclusive ? "" : " EXCLUSIVE");
    }
  }

  /**
   * The range as Spark has parsed it.
   *
   * @param context a {@code ChangelogContext}, which the oldest supported Spark lacks
   */
  static ChangesRange of(Object context) {
    Object range = get(context, "range");
    return switch (range.getClass().getSimpleName()) {
      case "VersionRange" -> bounded(range, "Version", (version, isInclusive) -> Bound.ofVersion((String) version, isInclusive));
      case "TimestampRange" -> bounded(range, "Timestamp", (time, isInclusive) -> Bound.ofTime((long) time, isInclusive));
      case "UnboundedRange" -> new ChangesRange(Bound.ofVersion("0", true), Optional.empty());
      default -> throw unknown(range.getClass().getName());
    };
  }

  private static ChangesRange bounded(Object range, String kind, BiFunction<Object, Boolean, Bound> bound) {
    boolean toInclusive = (boolean) get(range, "endingBoundInclusive");
    return new ChangesRange(
        bound.apply(get(range, "starting" + kind), (boolean) get(range, "startingBoundInclusive")),
        ((Optional<?>) get(range, "ending" + kind)).map(end -> bound.apply(end, toInclusive)));
  }

  static Object get(Object object, String field) {
    try {
      return object.getClass().getMethod(field).invoke(object);
    } catch (NoSuchMethodException | IllegalAccessException | InvocationTargetException error) {
      throw unknown(error.toString());
    }
  }

  private static RuntimeException unknown(String what) {
    return new ColocationException("this Spark has another CHANGES clause than those known: " + what).unchecked();
  }

  /**
   * The commits, the oldest first; compactions are among them.
   *
   * @param table as people name it
   * @param kept the table's snapshots, the oldest first
   * @param now by the API server
   * @throws ColocationException (unchecked) when the bounds are none, or the table no longer knows what a commit has changed
   */
  List<Snapshot> commits(String table, List<Snapshot> kept, Instant now) {
    long newest = kept.isEmpty() ? 0 : kept.get(kept.size() - 1).id();
    require(table, from, newest, now);
    to.ifPresent(bound -> require(table, bound, newest, now));
    if (to.isPresent() && isReversed(to.get())) {
      throw refused(table, "a range that begins before it ends");
    }
    long before = Math.max(0, from.newest(kept, !from.isInclusive()));
    long last = to.map(bound -> bound.newest(kept, bound.isInclusive())).orElse(newest);
    long oldest = kept.isEmpty() ? 1 : kept.get(0).id();
    List<Snapshot> found = kept.stream().filter(one -> one.id() > before && one.id() <= last).toList();
    boolean isKnown = before > 0 ? last <= before || kept.stream().anyMatch(one -> one.id() == before) : oldest == 1;
    if (!isKnown || found.size() != Math.max(0, last - before)) {
      throw expired(table, oldest);
    }
    return found;
  }

  private boolean isReversed(Bound end) {
    return from.time() != null ? from.time().isAfter(end.time()) : Long.parseLong(from.version()) > Long.parseLong(end.version());
  }

  private void require(String table, Bound bound, long newest, Instant now) {
    if (bound.time() != null) {
      if (bound.time().isAfter(now)) {
        throw refused(table, "a time that has come; it is " + now);
      }
    } else if (!bound.version().matches(ID) || Long.parseLong(bound.version()) > newest) {
      throw refused(table, "0 to " + newest + ", the table's newest snapshot");
    }
  }

  private RuntimeException refused(String table, String allowed) {
    return new ColocationException("table " + table + ": " + this + "; allowed: " + allowed).unchecked();
  }

  private RuntimeException expired(String table, long oldest) {
    return new ColocationException("SnapshotExpired: table " + table + ": " + this + "; the oldest snapshot that is kept is " + oldest
        + ", and a commit's rows are those that the snapshot before it lacks: begin with VERSION " + oldest + " EXCLUSIVE. To keep "
        + "snapshots for longer, ALTER TABLE … SET TBLPROPERTIES ('retention_snapshots' = …, 'retention_seconds' = …)").unchecked();
  }

  @Override
  public String toString() {
    return "CHANGES FROM " + from + to.map(bound -> " TO " + bound).orElse("");
  }
}
