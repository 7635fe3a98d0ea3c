package dev.colocation.spark.fs;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.List;
import java.util.function.Predicate;

/** Checks the fields of a manifest other than its files, by the rules of {@code model/table_manifest.py}: anyone who may load can store any bytes. */
public final class ManifestHeader {
  public static final int MAX_BUCKETS = 1 << 16;

  /** JSON's numbers are exact up to here in every language that reads them. */
  public static final long MAX_COUNT = (1L << 53) - 1;

  private static final int SHOWN_CHARACTERS = 100;

  /** The table's own number of buckets, where it is a multiple of the group's, which {@code buckets} has. */
  public static final String TABLE_BUCKETS = "tableBuckets";

  private ManifestHeader() {}

  /** How many buckets the files have. */
  public static Buckets buckets(JsonNode header) {
    int ofGroup = header.path("buckets").asInt();
    return new Buckets(ofGroup, header.path(TABLE_BUCKETS).asInt(ofGroup));
  }

  /**
   * Refuses a header that readers and writers would understand in another way than the agents.
   *
   * @throws IOException naming the field, what it holds, and what is allowed
   */
  public static void check(JsonNode header) throws IOException {
    require(header, "formatVersion", value -> value.isMissingNode() || isCount(value, Integer.MAX_VALUE), "a number");
    require(header, "snapshotId", value -> isCount(value, MAX_COUNT), "0 to " + MAX_COUNT);
    require(header, "buckets", value -> isCount(value, MAX_BUCKETS) && value.asInt() >= 1, "1 to " + MAX_BUCKETS);
    int ofGroup = header.path("buckets").asInt();
    require(header, TABLE_BUCKETS, value -> value.isMissingNode() || value.isNull()
        || isCount(value, MAX_BUCKETS) && value.asInt() > ofGroup && value.asInt() % ofGroup == 0,
        "a multiple of buckets, up to " + MAX_BUCKETS);
    require(header, "columns", value -> isListOf(value, ManifestHeader::isColumn), "a list of columns with name and type");
    require(header, "bucketedBy", ManifestHeader::isNames, "a list of names");
    for (String field : List.of("partitionedBy", "sortedBy")) {
      require(header, field, value -> value.isMissingNode() || isNames(value), "a list of names");
    }
    require(header, "padded", value -> value.isMissingNode() || isLengths(value), "lengths by names of columns");
    require(header, "parent", ManifestHeader::isTextOrNone, "a digest");
  }

  private static void require(JsonNode header, String field, Predicate<JsonNode> isAllowed, String allowed) throws IOException {
    JsonNode value = header.path(field);
    if (!isAllowed.test(value)) {
      String shown = value.isMissingNode() ? "missing" : value.toString();
      throw new IOException(field + " is " + shown.substring(0, Math.min(shown.length(), SHOWN_CHARACTERS)) + "; allowed: " + allowed);
    }
  }

  private static boolean isCount(JsonNode value, long most) {
    return value.isIntegralNumber() && value.canConvertToLong() && value.asLong() >= 0 && value.asLong() <= most;
  }

  private static boolean isListOf(JsonNode value, Predicate<JsonNode> isItem) {
    if (!value.isArray()) {
      return false;
    }
    for (JsonNode item : value) {
      if (!isItem.test(item)) {
        return false;
      }
    }
    return true;
  }

  private static boolean isNames(JsonNode value) {
    return isListOf(value, JsonNode::isTextual);
  }

  private static boolean isColumn(JsonNode value) {
    return value.path("name").isTextual() && !value.path("name").asText().isEmpty() && value.path("type").isTextual()
        && (value.path("nullable").isMissingNode() || value.path("nullable").isBoolean())
        && List.of("storedAs", "comment").stream().map(value::path).allMatch(text -> text.isMissingNode() || text.isTextual());
  }

  private static boolean isLengths(JsonNode value) {
    return value.isObject() && value.properties().stream().allMatch(length -> isCount(length.getValue(), Integer.MAX_VALUE));
  }

  private static boolean isTextOrNone(JsonNode value) {
    return value.isMissingNode() || value.isNull() || value.isTextual();
  }
}
