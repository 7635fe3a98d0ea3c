package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.StreamOffset.Position;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Snapshot;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * Options of a stream that reads a table: {@code spark.readStream.option(…).table(t)}.
 *
 * @param version the first commit whose rows are read; with {@code latest} the next one
 * @param time the first commit is the first one not before it
 * @param skipsChanges whether commits that are no appends are skipped
 * @param mostFiles the most files of a micro-batch
 * @param mostBytes the size after which a micro-batch takes no further file
 */
record StreamOptions(
    Optional<String> version, Optional<Instant> time, boolean skipsChanges, OptionalLong mostFiles, OptionalLong mostBytes) {
  static final String VERSION = "startingVersion";
  static final String TIMESTAMP = "startingTimestamp";
  static final String SKIP_CHANGES = "skipChangeCommits";
  static final String MOST_FILES = "maxFilesPerTrigger";
  static final String MOST_BYTES = "maxBytesPerTrigger";
  static final String LATEST = "latest";

  /**
   * Reads them.
   *
   * @throws ColocationException (unchecked) for invalid values
   */
  static StreamOptions of(CaseInsensitiveStringMap options) {
    Optional<String> version = Optional.ofNullable(options.get(VERSION)).map(String::strip);
    Optional<String> time = Optional.ofNullable(options.get(TIMESTAMP));
    if (version.isPresent() && time.isPresent()) {
      throw new ColocationException(VERSION + "='" + version.get() + "' and " + TIMESTAMP + "='" + time.get()
          + "'; allowed: one of them").unchecked();
    }
    version.filter(given -> !given.equals(LATEST) && !given.matches("[1-9][0-9]{0,17}")).ifPresent(given -> {
      throw refused(VERSION, given, "the id of a snapshot, from 1, or " + LATEST);
    });
    return new StreamOptions(
        version, time.map(given -> time(TIMESTAMP, given)), isOn(options), files(options.get(MOST_FILES)), bytes(options.get(MOST_BYTES)));
  }

  /** Spark only passes it back; triggers that read everything pass another one. */
  ReadLimit limit() {
    return mostFiles.isPresent() ? ReadLimit.maxFiles((int) mostFiles.getAsLong())
        : mostBytes.isPresent() ? ReadLimit.maxBytes(mostBytes.getAsLong()) : ReadLimit.allAvailable();
  }

  /** The value of an option that is a time. */
  static Instant time(String option, String given) {
    Object found = Cast$.MODULE$.apply(
        Literal$.MODULE$.apply(given.strip()), DataTypes.TimestampType, Option.apply(SQLConf.get().sessionLocalTimeZone()), false)
        .eval(InternalRow.empty());
    if (found == null) {
      throw refused(option, given, "a time, such as 2026-11-21 04:00:00");
    }
    return Instant.EPOCH.plus((long) found, ChronoUnit.MICROS);
  }

  private static boolean isOn(CaseInsensitiveStringMap options) {
    String given = options.getOrDefault(SKIP_CHANGES, "false");
    if (!given.equalsIgnoreCase("true") && !given.equalsIgnoreCase("false")) {
      throw refused(SKIP_CHANGES, given, "true or false");
    }
    return Boolean.parseBoolean(given);
  }

  private static OptionalLong files(String given) {
    if (given != null && !given.matches("[1-9][0-9]{0,8}")) {
      throw refused(MOST_FILES, given, "a whole number from 1");
    }
    return given == null ? OptionalLong.empty() : OptionalLong.of(Long.parseLong(given));
  }

  private static OptionalLong bytes(String given) {
    if (given == null) {
      return OptionalLong.empty();
    }
    try {
      long bytes = JavaUtils.byteStringAsBytes(given);
      if (bytes > 0) {
        return OptionalLong.of(bytes);
      }
    } catch (NumberFormatException error) {
      // As a size that is none.
    }
    throw refused(MOST_BYTES, given, "bytes, or a size such as 256m");
  }

  private static RuntimeException refused(String option, String given, String allowed) {
    return new ColocationException(option + "='" + given + "'; allowed: " + allowed).unchecked();
  }

  /**
   * Where a stream without a checkpoint begins. Pure.
   *
   * @param table its name in SQL
   * @param kept its snapshots, the oldest first
   * @param now by the API server
   */
  record StreamStart(String table, List<Snapshot> kept, StreamOptions options, Instant now) {
    /**
     * The position before the first rows.
     *
     * @throws ColocationException (unchecked) when the table does not keep what the options ask for
     */
    Position position() {
      Optional<Snapshot> newest = kept.stream().reduce((one, next) -> next);
      if (options.version().isPresent() && !options.version().get().equals(StreamOptions.LATEST)) {
        return before(Long.parseLong(options.version().get()), newest, StreamOptions.VERSION + "='" + options.version().get() + "'");
      }
      if (options.time().isPresent()) {
        return ofTime(options.time().get(), newest);
      }
      if (options.version().isPresent()) {
        return newest.map(Position::after).orElse(Position.BEFORE_ALL);
      }
      return newest.map(found -> new Position(found.id(), found.manifestSha256(), 0, true)).orElse(Position.BEFORE_ALL);
    }

    private Position ofTime(Instant time, Optional<Snapshot> newest) {
      String given = StreamOptions.TIMESTAMP + "='" + time + "'";
      if (time.isAfter(now)) {
        throw refused(given, "a time that has come; it is " + now);
      }
      long next = newest.map(Snapshot::id).orElse(0L) + 1;
      long first = kept.stream().filter(one -> !one.committedAt().isBefore(time)).map(Snapshot::id).findFirst().orElse(next);
      return before(Math.min(first, next), newest, given);
    }

    /** Of a commit's rows only those are known that its predecessor lacks. */
    private Position before(long id, Optional<Snapshot> newest, String given) {
      if (id == 1 && kept.stream().findFirst().map(Snapshot::id).orElse(1L) == 1) {
        return Position.BEFORE_ALL;
      }
      return kept.stream().filter(one -> one.id() == id - 1).findFirst().map(Position::after)
          .orElseThrow(() -> refused(given, allowed(newest)));
    }

    private String allowed(Optional<Snapshot> newest) {
      if (newest.isEmpty()) {
        return "1, since the table has no snapshot yet";
      }
      long first = kept.get(0).id() == 1 ? 1 : kept.get(0).id() + 1;
      return "commits " + first + " (of " + kept.stream().filter(one -> one.id() >= first).findFirst()
          .map(one -> one.json().path("committedAt").asText()).orElse("the future")
          + ") to " + (newest.get().id() + 1) + ", the next one. Earlier snapshots are no longer kept: without "
          + "the option the stream begins with all rows that are there";
    }

    private RuntimeException refused(String given, String allowed) {
      return new ColocationException("table " + table + ": " + given + "; allowed: " + allowed).unchecked();
    }
  }
}
