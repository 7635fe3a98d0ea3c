package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Json;
import dev.colocation.spark.cluster.Names;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/** A property of {@code TBLPROPERTIES}, with Doris' name where Doris has it, and its field in a ColocatedTable's spec. */
public enum TableProperty {
  COLOCATE_WITH("colocate_with", Kind.NAME, "", "colocateWith"),
  REPLICATION_NUM("replication_num", Kind.NUMBER, "", "replicas"),
  /** The bucket key, where there is no word for {@code CLUSTERED BY}. */
  CLUSTERED_BY("clustered_by", Kind.COLUMNS, "", "bucketedBy"),
  BUCKETS("buckets", Kind.NUMBER, "", "buckets"),
  SORTED_BY("sorted_by", Kind.COLUMNS, "", "sortedBy"),
  RECYCLE_AFTER_SECONDS("recycle_after_seconds", Kind.NUMBER, "86400", "recycleAfterSeconds"),
  RETENTION_SECONDS("retention_seconds", Kind.NUMBER, "86400", "retention", "seconds"),
  RETENTION_SNAPSHOTS("retention_snapshots", Kind.NUMBER, "10", "retention", "snapshots"),
  COMPACTION_ENABLED("compaction_enabled", Kind.SWITCH, "false", "compaction", "enabled"),
  COMPACTION_MAX_FILES("compaction_max_files_per_bucket", Kind.NUMBER, "8", "compaction", "maxFilesPerBucket"),
  /** Set by the clause {@code COMMENT}. */
  COMMENT(TableCatalog.PROP_COMMENT, Kind.TEXT, "", "comment");

  /** The form of a property's values. */
  private enum Kind {
    TEXT, NAME, NUMBER, SWITCH, COLUMNS
  }

  private static final int MOST_DIGITS = 12;

  /** Properties that say how files are laid out, which ALTER TABLE cannot change. */
  static final List<TableProperty> OF_LAYOUT = List.of(CLUSTERED_BY, BUCKETS, SORTED_BY);

  private final String key;
  private final Kind kind;
  private final String otherwise;
  private final List<String> path;

  /** {@code otherwise}: the API server's default for the field. */
  TableProperty(String key, Kind kind, String otherwise, String... path) {
    this.key = key;
    this.kind = kind;
    this.otherwise = otherwise;
    this.path = List.of(path);
  }

  /** The property of a name; names have no case, as in Spark's options. */
  public static Optional<TableProperty> of(String key) {
    return Arrays.stream(values()).filter(property -> property.key.equalsIgnoreCase(key)).findFirst();
  }

  /** Names that a statement may use, for messages. */
  public static String names(boolean isAlter) {
    return Arrays.stream(values()).filter(property -> property != COMMENT && !(isAlter && OF_LAYOUT.contains(property)))
        .map(property -> property.key).collect(Collectors.joining(", "));
  }

  boolean isIn(Map<String, String> properties) {
    return properties.keySet().stream().anyMatch(key::equalsIgnoreCase);
  }

  /** Defaults, by names of properties. */
  public static Map<String, String> defaults() {
    return Arrays.stream(values()).filter(property -> !property.otherwise.isEmpty())
        .collect(Collectors.toMap(property -> property.key, property -> property.otherwise));
  }

  /** Properties that a spec sets to other values than the defaults. */
  public static Map<String, String> givenBy(JsonNode spec) {
    Map<String, String> said = new TreeMap<>();
    for (TableProperty property : values()) {
      JsonNode value = spec.at("/" + String.join("/", property.path));
      String text = value.isArray() ? String.join(",", Json.texts(value)) : value.isNull() ? "" : value.asText();
      if (!text.isEmpty() && !text.equals(property.otherwise)) {
        said.put(property.key, text);
      }
    }
    return said;
  }

  public String key() {
    return key;
  }

  /** The field of the spec, or the one that holds it. */
  public String field() {
    return path.get(0);
  }

  public void set(ObjectNode spec, String value) {
    ObjectNode holder = holder(spec);
    String name = path.get(path.size() - 1);
    switch (kind) {
      case TEXT -> holder.put(name, value);
      case NAME -> holder.put(name, Names.ofSql(value));
      case NUMBER -> holder.put(name, wholeNumber(value));
      case SWITCH -> holder.put(name, isOn(value));
      case COLUMNS -> {
        ArrayNode columns = holder.putArray(name);
        Arrays.stream(value.split(",")).map(String::strip).filter(column -> !column.isEmpty()).forEach(columns::add);
      }
    }
  }

  /** A value in the form of {@link #givenBy} and {@link #defaults}. */
  public String normalized(String value) {
    ObjectNode spec = new ObjectMapper().createObjectNode();
    set(spec, value);
    return givenBy(spec).getOrDefault(key, otherwise);
  }

  /** Resets the property to its default. */
  public void remove(ObjectNode spec) {
    if (kind == Kind.TEXT || kind == Kind.NAME) {
      holder(spec).put(path.get(path.size() - 1), "");
    } else {
      holder(spec).putNull(path.get(path.size() - 1));
    }
  }

  private ObjectNode holder(ObjectNode spec) {
    if (path.size() == 1) {
      return spec;
    }
    return spec.get(path.get(0)) instanceof ObjectNode there ? there : spec.putObject(path.get(0));
  }

  private long wholeNumber(String value) {
    if (!value.matches("[0-9]{1," + MOST_DIGITS + "}")) {
      throw ColocationException.notPossible(key + "='" + value + "'; allowed: a whole number from 0");
    }
    return Long.parseLong(value);
  }

  private boolean isOn(String value) {
    if (!value.equalsIgnoreCase("true") && !value.equalsIgnoreCase("false")) {
      throw ColocationException.notPossible(key + "='" + value + "'; allowed: true or false");
    }
    return Boolean.parseBoolean(value);
  }
}
