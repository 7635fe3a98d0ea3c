package dev.colocation.spark.cluster;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.fs.ManifestHeader;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A committed state of a table, as its status records it. Counts are of one replica.
 *
 * @param manifestSha256 64 hex digits
 * @param json the record in the status, with fields that later versions added
 */
public record Snapshot(long id, String manifestSha256, Instant committedAt, ObjectNode json) {
  private static final String PREFIX = "sha256:";
  private static final Pattern MANIFEST = Pattern.compile("sha256:[0-9a-f]{64}");
  private static final int MAX_OPERATION_CHARACTERS = 32;
  private static final List<String> COUNTS = List.of("partitions", "files", "rows", "bytes");
  /** In the status; see {@link #buckets}. */
  public static final String BUCKETS = "buckets";

  /** What is wrong with an object; empty when it is a snapshot. */
  static Optional<String> problem(JsonNode node, String where) {
    if (!node.isObject()) {
      return Optional.of(where + " is " + Json.shown(node) + "; allowed: an object");
    }
    if (!Json.isCount(node.path("id"))) {
      return Optional.of(where + ".id is " + Json.shown(node.path("id")) + "; allowed: 0 to " + Json.MAX_EXACT);
    }
    if (!node.path("manifest").isTextual() || !MANIFEST.matcher(node.path("manifest").asText()).matches()) {
      return Optional.of(where + ".manifest is " + Json.shown(node.path("manifest"))
          + "; allowed: sha256: followed by 64 hexadecimal digits in lower case");
    }
    if (time(node.path("committedAt")).isEmpty()) {
      return Optional.of(where + ".committedAt is " + Json.shown(node.path("committedAt"))
          + "; allowed: a time of RFC 3339 with a time zone, e.g. 2026-11-21T00:00:00Z");
    }
    if (node.has("operation") && !isOperation(node.path("operation"))) {
      return Optional.of(where + ".operation is " + Json.shown(node.path("operation")) + "; allowed: up to "
          + MAX_OPERATION_CHARACTERS + " characters");
    }
    int buckets = node.path(BUCKETS).asInt();
    if (node.hasNonNull(BUCKETS) && !(node.path(BUCKETS).isInt() && buckets > 0 && buckets <= ManifestHeader.MAX_BUCKETS)) {
      return Optional.of(where + ".buckets is " + Json.shown(node.path(BUCKETS)) + "; allowed: 1 to " + ManifestHeader.MAX_BUCKETS);
    }
    Stream<String> recorded = ChangeCounts.FIELDS.stream().filter(name -> !node.path(name).isNull());
    return Stream.concat(COUNTS.stream(), recorded)
        .filter(name -> node.has(name) && !Json.isCount(node.path(name))).findFirst()
        .map(name -> where + "." + name + " is " + Json.shown(node.path(name)) + "; allowed: 0 to " + Json.MAX_EXACT);
  }

  /** Reads an object without a {@link #problem}. */
  public static Snapshot of(JsonNode node) {
    return new Snapshot(node.path("id").asLong(), node.path("manifest").asText().substring(PREFIX.length()),
        time(node.path("committedAt")).orElseThrow(), (ObjectNode) node);
  }

  /** The manifest's name in objects and messages, {@code sha256:<hex>}. */
  public String manifest() {
    return PREFIX + manifestSha256;
  }

  /** After a restore of etcd another snapshot may have the same id; its manifest differs. */
  public boolean isSameAs(Snapshot other) {
    return id == other.id && manifestSha256.equals(other.manifestSha256);
  }

  /** The change that made it, e.g. append; empty when the status does not record it. */
  public String operation() {
    return Json.text(json.path("operation"));
  }

  /** How many buckets the table has in it, where that is another number than the group's; else 0. */
  public int buckets() {
    return json.path(BUCKETS).asInt();
  }

  public long partitions() {
    return json.path("partitions").asLong();
  }

  public long files() {
    return json.path("files").asLong();
  }

  public long rows() {
    return json.path("rows").asLong();
  }

  public long bytes() {
    return json.path("bytes").asLong();
  }

  /** Whether it records its rows and files. */
  public boolean hasCounts() {
    return json.has("rows") && json.has("files");
  }

  /** What the commit that made it changed. */
  public ChangeCounts changed() {
    return ChangeCounts.of(json);
  }

  @Override
  public String toString() {
    return id + " (" + json.path("committedAt").asText() + ")";
  }

  private static Optional<Instant> time(JsonNode node) {
    return node.isTextual() ? Times.parseCommitted(node.asText()) : Optional.empty();
  }

  private static boolean isOperation(JsonNode node) {
    String text = node.asText();
    return node.isTextual() && text.codePointCount(0, text.length()) <= MAX_OPERATION_CHARACTERS;
  }
}
