package dev.colocation.spark.cluster;

import java.time.DateTimeException;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Optional;
import java.util.regex.Pattern;

/** Times in Kubernetes objects, as {@code model/base.py} reads them: RFC 3339 with a time zone, at most 18 hours from UTC. */
final class Times {
  private static final Pattern TIME = Pattern.compile("[1-9][0-9]{3}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]"
      + "([.][0-9]{1,9})?(Z|[+-][01][0-9]:[0-5][0-9])");
  private static final int MAX_YEAR = 9999;

  private Times() {}

  /** Empty for everything that is no such time. */
  static Optional<Instant> parse(String text) {
    if (!TIME.matcher(text).matches()) {
      return Optional.empty();
    }
    try {
      OffsetDateTime time = OffsetDateTime.parse(text).withOffsetSameInstant(ZoneOffset.UTC);
      return time.getYear() <= MAX_YEAR ? Optional.of(time.toInstant()) : Optional.empty();
    } catch (DateTimeException error) {
      return Optional.empty();
    }
  }

  /** The same, of a commit: before the year 3000, as durations are added to it. */
  static Optional<Instant> parseCommitted(String text) {
    return text.startsWith("1") || text.startsWith("2") ? parse(text) : Optional.empty();
  }
}
