package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.StreamOffset.Position;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.TableObject;
import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * Where a stream without a checkpoint begins. Pure.
 *
 * @param table as people name it
 * @param kept its snapshots, the oldest first
 * @param now by the API server
 */
record StreamStart(String table, List<TableObject.Snapshot> kept, StreamOptions options, Instant now) {
  /**
   * The position before the first rows.
   *
   * @throws ColocationException (unchecked) when the table does not keep what the options ask for
   */
  Position position() {
    Optional<TableObject.Snapshot> newest = kept.stream().reduce((one, next) -> next);
    if (options.version().isPresent() && !options.version().get().equals(StreamOptions.LATEST)) {
      return before(Long.parseLong(options.version().get()), newest, StreamOptions.VERSION + "='" + options.version().get() + "'");
    }
    if (options.time().isPresent()) {
      return ofTime(options.time().get(), newest);
    }
    if (options.version().isPresent()) {
      return newest.map(Position::after).orElse(Position.BEFORE_ALL);
    }
    return newest.map(found -> new Position(found.id(), found.manifest(), 0, true)).orElse(Position.BEFORE_ALL);
  }

  private Position ofTime(Instant time, Optional<TableObject.Snapshot> newest) {
    String given = StreamOptions.TIMESTAMP + "='" + time + "'";
    if (time.isAfter(now)) {
      throw refused(given, "a time that has come; it is " + now);
    }
    long next = newest.map(TableObject.Snapshot::id).orElse(0L) + 1;
    long first = kept.stream().filter(one -> !one.time().isBefore(time)).map(TableObject.Snapshot::id).findFirst().orElse(next);
    return before(Math.min(first, next), newest, given);
  }

  /** Of a commit's rows only those are known that its predecessor lacks. */
  private Position before(long id, Optional<TableObject.Snapshot> newest, String given) {
    if (id == 1 && kept.stream().findFirst().map(TableObject.Snapshot::id).orElse(1L) == 1) {
      return Position.BEFORE_ALL;
    }
    return kept.stream().filter(one -> one.id() == id - 1).findFirst().map(Position::after)
        .orElseThrow(() -> refused(given, allowed(newest)));
  }

  private String allowed(Optional<TableObject.Snapshot> newest) {
    if (newest.isEmpty()) {
      return "1, since the table has no snapshot yet";
    }
    long first = kept.get(0).id() == 1 ? 1 : kept.get(0).id() + 1;
    return "commits " + first + " (of " + kept.stream().filter(one -> one.id() >= first).findFirst().map(TableObject.Snapshot::committedAt)
        .orElse("the future") + ") to " + (newest.get().id() + 1) + ", the next one. Earlier snapshots are no longer kept: without "
        + "the option the stream begins with all rows that are there";
  }

  private RuntimeException refused(String given, String allowed) {
    return new ColocationException("table " + table + ": " + given + "; allowed: " + allowed).unchecked();
  }
}
