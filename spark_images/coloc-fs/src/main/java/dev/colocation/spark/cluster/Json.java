package dev.colocation.spark.cluster;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;

/** Reads fields of objects, which others may have written. */
public final class Json {
  /** JSON's numbers are exact up to here in every language that reads them. */
  public static final long MAX_EXACT = (1L << 53) - 1;

  private static final int MAX_SHOWN_CHARACTERS = 100;

  private Json() {}

  /** Whether a field is missing or null. */
  public static boolean isAbsent(JsonNode node) {
    return node.isMissingNode() || node.isNull();
  }

  /** The items of an array as texts; none where it is no array. */
  public static List<String> texts(JsonNode array) {
    List<String> found = new ArrayList<>();
    array.forEach(item -> found.add(item.asText()));
    return List.copyOf(found);
  }

  /** A text; empty where the field holds anything else. */
  static String text(JsonNode node) {
    return node.isTextual() ? node.asText() : "";
  }

  /** Whether a field is a whole number from 0 to {@link #MAX_EXACT}. */
  static boolean isCount(JsonNode node) {
    return node.isIntegralNumber() && node.canConvertToLong() && node.asLong() >= 0 && node.asLong() <= MAX_EXACT;
  }

  /** A field in an error message, shortened. */
  static String shown(JsonNode node) {
    String text = node.isMissingNode() ? "missing" : node.toString();
    return text.length() <= MAX_SHOWN_CHARACTERS ? text : text.substring(0, MAX_SHOWN_CHARACTERS) + "…";
  }
}
