package dev.colocation.spark.cluster;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * A committed state of a table, as its status names it.
 *
 * @param manifestSha256 64 hex digits
 * @param json as the status has it, with what later versions wrote
 */
public record Snapshot(long id, String manifestSha256, Instant committedAt, ObjectNode json) {
  private static final String PREFIX = "sha256:";
  private static final Pattern MANIFEST = Pattern.compile("sha256:[0-9a-f]{64}");
  private static final Pattern TIME = Pattern.compile("[12][0-9]{3}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]"
      + "([.][0-9]{1,9})?(Z|[+-][01][0-9]:[0-5][0-9])");
  private static final int MAX_SHOWN_CHARACTERS = 100;
  private static final List<String> COUNTS = List.of("partitions", "files", "rows", "bytes");

  /** What is wrong with an object; empty when it is a snapshot. */
  static Optional<String> problem(JsonNode node, String where) {
    if (!node.isObject()) {
     return Optional.of(where + " is " + shown(node) + "; allowed: an object");
    }
    if (!isCount(node.path("id"))) {
     return Optional.of(where + ".id is " + shown(node.path("id")) + "; allowed: 0 to " + CommitKey.MAX_VERSION);
    }
    if (!node.path("manifest").isTextual() || !MANIFEST.matcher(node.path("manifest").asText()).matches()) {
     return Optional.of(where + ".manifest is " + shown(node.path("manifest"))
          + "; allowed: sha256: followed by 64 hexadecimal digits in lower case");
    }
    if (time(node.path("committedAt")).isEmpty()) {
     return Optional.of(where + ".committedAt is " + shown(node.path("committedAt"))
          + "; allowed: a time of RFC 3339 with a time zone, e.g. 2026-11-21T00:00:00Z");
    }
    return COUNTS.stream().filter(name -> node.has(name) && !isCount(node.path(name))).findFirst()
        .map(name -> where + "." + name + " is " + shown(node.path(name)) + "; allowed: 0 to " + CommitKey.MAX_VERSION);
  }

  /** An object without a {@link #problem}. */
  public static Snapshot of(JsonNode node) {
    return new Snapshot(node.path("id").asLong(), node.path("manifest").asText().substring(PREFIX.length()),
        time(node.path("committedAt")).orElseThrow(), (ObjectNode) node);
  }

  /** {@code sha256:<hex>}, as people see it. */
  public String manifest() {
    return PREFIX + manifestSha256;
  }

  public boolean isSameAs(Snapshot other) {
    return id == other.id && manifestSha256.equals(other.manifestSha256);
  }

  static boolean isCount(JsonNode node) {
    return node.isIntegralNumber() && node.canConvertToLong() && node.asLong() >= 0
        && node.asLong() <= CommitKey.MAX_VERSION;
  }

  static String shown(JsonNode node) {
    String text = node.isMissingNode() ? "missing" : node.toString();
    return text.length() <= MAX_SHOWN_CHARACTERS ? text : text.substring(0, MAX_SHOWN_CHARACTERS) + "…";
  }

  private static Optional<Instant> time(JsonNode node) {
    if (!node.isTextual() || !TIME.matcher(node.asText()).matches()) {
      return Optional.empty();
    }
    try {
     return Optional.of(OffsetDateTime.parse(node.asText()).toInstant());
    } catch (DateTimeException error) {
      return Optional.empty();
    }
  }
}
