package dev.colocation.spark.cluster;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import dev.colocation.spark.fs.Manifest;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A ColocatedTable as it was read, as far as readers need it. Whoever loads tables may write their status: nothing of it is
 * believed before it was checked.
 *
 * @param sqlName as SQL shows it, see {@link #sqlName(JsonNode)}
 * @param colocateWith as the spec says; empty = in no group
 * @param placingGroup as the status says; empty = as the spec says
 * @param readColumns as which rows are shown: the spec's, or those of before while a statement is about to replace all rows
 * @param buckets of the spec; 0 = as the group says
 * @param recovering it is being brought back from the recycle bin: it has rows, but no snapshot yet
 * @param properties what the spec says beside columns and layout, by names of {@link TableProperty}
 * @param comments of columns, by their names in lower case
 * @param snapshots those that can be read, the newest first; empty before the first load
 * @param statusError why they are not all that the status names; empty = they are
 * @param commitKeys by snapshot id, the key that its commit carried, as far as the status still has it
 */
public record TableObject(
    String namespace,
    String name,
    String sqlName,
    String uid,
    String resourceVersion,
    String colocateWith,
    String placingGroup,
    List<Manifest.Column> columns,
    List<String> bucketedBy,
    List<String> partitionedBy,
    List<String> sortedBy,
    List<Manifest.Column> readColumns,
    int buckets,
    boolean accepted,
    String refusal,
    boolean recovering,
    Map<String, String> properties,
    Map<String, String> comments,
    List<Snapshot> snapshots,
    String statusError,
    Map<Long, String> commitKeys) {

  /** An annotation: the uid of the dropped table that this one brings back. */
  private static final String RECOVERS = "colocation.dev/recovers";

  /**
   * The manifest of the rows that go, of a table whose definition is that of rows which are still to be committed: the operator
   * does not hold the one against the other until the next commit, and readers see the table as it was.
   */
  public static final String REPLACES = "colocation.dev/replaces";
  /** An annotation: how the statement that made the table wrote its name, where that is not the object's. */
  public static final String SQL_NAME = "colocation.dev/sql-name";

  private static final Logger LOG = LoggerFactory.getLogger(TableObject.class);
  private static final Pattern MANIFEST = Pattern.compile("sha256:[0-9a-f]{64}");

  /**
   * A committed state of a table.
   *
   * @param manifest the digest, 64 hex digits
   * @param operation what made it, e.g. append; empty when the status does not say it
   * @param partitions counts are of one replica
   */
  public record Snapshot(
      long id, String manifest, String committedAt, String operation, long partitions, long files, long rows, long bytes) {
    public Instant time() {
      return OperatorLife.time(committedAt).orElseThrow();
    }

    @Override
    public String toString() {
      return id + " (" + committedAt + ")";
    }
  }

  /**
   * Reads an object of the API server. What loads write into its status may be spoilt: that is said when its rows are wanted, so
   * that the table can be listed, described and dropped all the same.
   *
   * @throws ColocationException (unchecked) when its spec cannot be understood
   */
  public static TableObject parse(JsonNode object) {
    List<Snapshot> found = new ArrayList<>();
    String statusError = "";
    try {
      readSnapshots(fullName(object), object.path("status"), found);
    } catch (ColocationException spoilt) {
      statusError = spoilt.getMessage();
    }
    return parse(object, List.copyOf(found), statusError);
  }

  /** The same for a write that replaces all rows: of its status only the newest snapshot counts, if that can be understood. */
  static TableObject parseReplaced(JsonNode object) {
    return parse(object, newestIfKnown(fullName(object), object.path("status").path("snapshot")), "");
  }

  private static String fullName(JsonNode object) {
    return object.path("metadata").path("namespace").asText() + "." + object.path("metadata").path("name").asText();
  }

  private static TableObject parse(JsonNode object, List<Snapshot> snapshots, String statusError) {
    JsonNode metadata = object.path("metadata");
    JsonNode spec = object.path("spec");
    JsonNode status = object.path("status");
    String namespace = metadata.path("namespace").asText();
    String name = metadata.path("name").asText();
    List<String> bucketedBy = GroupObject.texts(spec.path("bucketedBy"));
    List<String> sortedBy = GroupObject.texts(spec.path("sortedBy"));
    return new TableObject(
        namespace,
        name,
        sqlName(metadata),
        metadata.path("uid").asText(),
        metadata.path("resourceVersion").asText(),
        spec.path("colocateWith").asText(""),
        text(status.path("group")),
        Manifest.columns(spec.path("columns")),
        bucketedBy,
        GroupObject.texts(spec.path("partitionedBy")),
        sortedBy.isEmpty() ? bucketedBy : sortedBy,
        Manifest.columns((isBeingReplaced(object) ? status : spec).path("columns")),
        spec.path("buckets").asInt(),
        status.path("accepted").asBoolean(),
        refusal(status),
        metadata.path("annotations").has(RECOVERS) && !status.path("accepted").asBoolean()
            && GroupObject.isAbsent(status.path("snapshot")),
        TableProperty.saidBy(spec),
        comments(spec.path("columns")),
        snapshots,
        statusError,
        commitKeys(status.path("commits")));
  }

  /** Whether the spec is that of rows which are still to be committed, in the place of all that are there. */
  private static boolean isBeingReplaced(JsonNode object) {
    JsonNode manifest = object.path("status").path("snapshot").path("manifest");
    return manifest.isTextual() && manifest.equals(object.path("metadata").path("annotations").path(REPLACES));
  }

  /** How SQL names a table. Whoever may edit the object may write any name there: one that means another object does not count. */
  static String sqlName(JsonNode metadata) {
    String name = metadata.path("name").asText();
    String given = metadata.path("annotations").path(SQL_NAME).asText();
    return Names.ofSql(given).equals(name) ? given : name;
  }

  private static Map<Long, String> commitKeys(JsonNode commits) {
    Map<Long, String> keys = new HashMap<>();
    commits.forEach(commit -> keys.putIfAbsent(commit.path("snapshotId").asLong(), text(commit.path("writer"))));
    return Map.copyOf(keys);
  }

  private static Map<String, String> comments(JsonNode columns) {
    Map<String, String> comments = new TreeMap<>();
    for (JsonNode column : columns) {
      String comment = column.path("comment").asText("");
      if (!comment.isEmpty()) {
        comments.put(Names.lowerCase(column.path("name").asText()), comment);
      }
    }
    return comments;
  }

  private static String text(JsonNode node) {
    return node.isTextual() ? node.asText() : "";
  }

  private static void readSnapshots(String table, JsonNode status, List<Snapshot> found) throws ColocationException {
    if (!GroupObject.isAbsent(status.path("snapshot"))) {
      found.add(snapshot(table, "status.snapshot", status.path("snapshot")));
    }
    int index = 0;
    for (JsonNode replaced : status.path("history")) {
      found.add(snapshot(table, "status.history[" + index++ + "]", replaced));
    }
  }

  private static List<Snapshot> newestIfKnown(String table, JsonNode newest) {
    if (GroupObject.isAbsent(newest)) {
      return List.of();
    }
    try {
      return List.of(snapshot(table, "status.snapshot", newest));
    } catch (ColocationException spoiled) {
      LOG.warn("all rows of the table are to be replaced: {}", spoiled.getMessage());
      return List.of();
    }
  }

  private static Snapshot snapshot(String table, String where, JsonNode node) throws ColocationException {
    String manifest = node.path("manifest").asText();
    String committedAt = node.path("committedAt").asText();
    require(node.path("id").isIntegralNumber() && node.path("id").asLong() >= 0, table, where + ".id", node.path("id"));
    require(MANIFEST.matcher(manifest).matches(), table, where + ".manifest", node.path("manifest"));
    require(OperatorLife.time(committedAt).isPresent(), table, where + ".committedAt", node.path("committedAt"));
   return new Snapshot(
        node.path("id").asLong(), manifest.substring(manifest.indexOf(':') + 1), committedAt,
        text(node.path("operation")), node.path("partitions").asLong(), node.path("files").asLong(), node.path("rows").asLong(),
        node.path("bytes").asLong());
  }

  private static void require(boolean isTrue, String table, String field, JsonNode given) throws ColocationException {
    if (!isTrue) {
      throw new ColocationException("InvalidStatus: the status of table " + table + " cannot be understood: " + field
          + " is " + given + "; restore it, or reload the whole table with mode overwrite");
    }
  }

  /**
   * Why the table takes no reads and changes, or that it is not judged yet; empty when it does, or its status was spoilt.
   *
   * <p>A table that may not move to the group that it names goes on in its old one: it is not accepted, and ready.
   */
  public static String refusal(JsonNode status) {
    JsonNode ready = condition(status, "Ready");
    return ready.path("status").asText().equals("True") ? "" : judgement(status);
  }

  /** What the operator has against the spec as it is; empty when it accepts it, or the status was spoilt. */
  public static String judgement(JsonNode status) {
    if (status.path("accepted").isBoolean() && status.path("accepted").asBoolean()) {
      return "";
    }
    JsonNode accepted = condition(status, "Accepted");
    if (accepted.isMissingNode()) {
      return "the operator has not accepted it yet";
    }
    String reason = accepted.path("reason").asText();
    return reason.equals("InvalidStatus") ? "" : reason + ": " + accepted.path("message").asText();
  }

  private static JsonNode condition(JsonNode status, String type) {
    for (JsonNode condition : status.path("conditions")) {
      if (condition.path("type").asText().equals(type)) {
        return condition;
      }
    }
    return MissingNode.getInstance();
  }

  /**
   * Refuses a table that is being brought back from the recycle bin: it has no snapshot yet, and is anything but empty.
   *
   * @throws ColocationException (unchecked)
   */
  public void requireRecovered() {
    if (recovering) {
      throw new ColocationException("table " + fullName() + " is being brought back from the recycle bin, and its rows are not "
          + "there yet (" + refusal + "); run this again when it is accepted: kubectl get colocatedtable " + name + " -n "
          + namespace).unchecked();
    }
  }

  /**
   * Refuses to rely on a status that somebody spoilt.
   *
   * @throws ColocationException (unchecked)
   */
  public void requireStatus() {
    if (!statusError.isEmpty()) {
      throw new ColocationException(statusError).unchecked();
    }
  }

  /** {@code <namespace>.<table>}. */
  public String fullName() {
    return namespace + "." + name;
  }

  /** {@code <namespace>.<table>} as SQL shows it. */
  public String shownName() {
    return namespace + "." + sqlName;
  }

  /** Its folder below the namespace's. */
  public String directory() {
   return Names.directory(name, uid);
  }

  /** The group whose map says where its rows lie; its own when it is in no group. */
  public Names.GroupKey group() {
    return Names.placingGroup(namespace, name, uid, placingGroup.isEmpty() ? colocateWith : placingGroup);
  }

  public Optional<Snapshot> newest() {
    return snapshots.stream().findFirst();
  }

  /** The snapshot of {@code VERSION AS OF}. */
  public Snapshot ofVersion(String version) {
    requireStatus();
    return snapshots.stream()
        .filter(snapshot -> String.valueOf(snapshot.id()).equals(version.trim()))
        .findFirst()
        .orElseThrow(() -> notKept("snapshot " + version));
  }

  /** The snapshot of {@code TIMESTAMP AS OF}: what a query at that time would have read. */
  public Snapshot ofTime(Instant time) {
    requireStatus();
    return snapshots.stream()
        .filter(snapshot -> !snapshot.time().isAfter(time))
        .findFirst()
        .orElseThrow(() -> notKept("snapshot of " + time + " or before"));
  }

  private RuntimeException notKept(String what) {
    String kept = snapshots.stream().map(Snapshot::toString).collect(Collectors.joining(", "));
    return new ColocationException("table " + shownName() + " keeps no " + what + "; it keeps: "
        + (kept.isEmpty() ? "none, nothing was loaded yet" : kept) + ". spec.retention sets how long snapshots are kept").unchecked();
  }

  /** How the stored files may be shown: as {@link #readColumns} when files with the manifest's fit them, else the manifest's. */
  public List<Manifest.Column> shownColumns(List<Manifest.Column> stored) {
    List<Manifest.Column> left = new ArrayList<>(readColumns);
    for (Manifest.Column column : stored) {
      Optional<Manifest.Column> successor = left.stream()
          .filter(wanted -> wanted.storedName().equalsIgnoreCase(column.storedName())).findFirst();
      boolean fits = successor.isPresent()
          && TypeNames.areEqual(successor.get().type(), column.type())
          && (successor.get().nullable() || !column.nullable());
      if (!fits) {
        return stored;
      }
      left.remove(successor.get());
    }
    return left.stream().allMatch(Manifest.Column::nullable) ? readColumns : stored;
  }

  /** How the files differ from the group's schema; empty when they do not. */
  public static String inconsistency(
      List<Manifest.Column> columns, List<String> bucketedBy, int buckets, GroupObject group) {
    if (buckets != group.bucketCount()) {
      return "the files have " + buckets + " buckets, the group has " + group.bucketCount();
    }
    List<String> key = bucketedBy.stream().map(name -> keyType(columns, name)).toList();
    if (!key.equals(group.bucketKey())) {
      return "the files are bucketed by (" + String.join(", ", key) + "), the group by ("
          + String.join(", ", group.bucketKey()) + ")";
    }
    return "";
  }

  private static String keyType(List<Manifest.Column> columns, String name) {
    return columns.stream().filter(column -> column.name().equalsIgnoreCase(name)).findFirst()
        .map(column -> TypeNames.canonical(column.type())).orElse("no column " + name);
  }

  /** Names of all columns, those of partitions last, as Spark has them. */
  public static Stream<Manifest.Column> partitionsLast(List<Manifest.Column> columns, List<String> partitionedBy) {
    return Stream.concat(
        columns.stream().filter(column -> partitionedBy.stream().noneMatch(column.name()::equalsIgnoreCase)),
        partitionedBy.stream().flatMap(
            name -> columns.stream().filter(column -> column.name().equalsIgnoreCase(name))));
  }
}
