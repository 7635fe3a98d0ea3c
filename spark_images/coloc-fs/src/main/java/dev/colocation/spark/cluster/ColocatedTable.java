package dev.colocation.spark.cluster;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.CommitKey.CommitRecord;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.Manifest;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A ColocatedTable as it was at {@link #resourceVersion}. An invalid spec or status is no error when it is read, so that such a
 * table can still be listed, described and dropped; {@code require…} refuses to rely on it.
 */
public final class ColocatedTable {
  /** An annotation: the name that the creating statement gave the table, where it differs from the object's. */
  public static final String SQL_NAME = "colocation.dev/sql-name";

  /**
   * An annotation: the manifest of the rows that are about to be replaced. Until the next commit the operator does not compare the
   * new definition with these rows, and readers see the table as it was.
   */
  public static final String REPLACES = "colocation.dev/replaces";

  /** Begins annotations: properties {@code pipelines.…} that Spark Declarative Pipelines give a table and read again. */
  public static final String PIPELINES = "colocation.dev/pipelines.";

  /** An annotation: the uid of the dropped table that this one brings back. */
  private static final String RECOVERS = "colocation.dev/recovers";

  /** An annotation: the first digits of the uid under which a lost table's files lie, which this table takes over. */
  private static final String ADOPTS = "colocation.dev/adopts";

  private static final Set<String> LASTING_REFUSALS = Set.of("InvalidSpec", "SchemaMismatch");
  private static final int MAX_PROBLEM_CHARACTERS = 1000;
  private static final int DEFAULT_RETENTION_SECONDS = 86400;
  private static final int DEFAULT_RETENTION_SNAPSHOTS = 10;
  private static final int DEFAULT_FILES_PER_BUCKET = 8;

  private final JsonNode metadata;
  private final JsonNode spec;
  private final JsonNode status;
  private final TableLayout layout;
  private final CommittedState committed;

  private ColocatedTable(JsonNode metadata, JsonNode spec, JsonNode status, CommittedState committed) {
    this.metadata = metadata;
    this.spec = spec;
    this.status = status;
    this.committed = committed;
    List<String> bucketedBy = Json.texts(spec.path("bucketedBy"));
    List<String> sortedBy = Json.texts(spec.path("sortedBy"));
    layout = new TableLayout(
        Manifest.columns(spec.path("columns")), bucketedBy, Json.texts(spec.path("partitionedBy")),
        sortedBy.isEmpty() ? bucketedBy : sortedBy);
  }

  /** Reads an object of the API server. */
  public static ColocatedTable parse(JsonNode object) {
    JsonNode status = object.path("status");
    return new ColocatedTable(object.path("metadata"), object.path("spec"), status, CommittedState.parse(status));
  }

  /** The table for a write that replaces all rows: an invalid status counts as none. */
  public ColocatedTable toBeReplaced() {
    return new ColocatedTable(metadata, spec, status, committed.replaced());
  }

  /** The table before its later snapshots were committed. */
  public ColocatedTable withSnapshot(Optional<Snapshot> older) {
    return new ColocatedTable(metadata, spec, status, committed.at(older));
  }

  // Identity

  public String namespace() {
    return metadata.path("namespace").asText();
  }

  public String name() {
    return metadata.path("name").asText();
  }

  public String uid() {
    return metadata.path("uid").asText();
  }

  public String resourceVersion() {
    return metadata.path("resourceVersion").asText();
  }

  /** {@code <namespace>.<table>}. */
  public String fullName() {
    return namespace() + "." + name();
  }

  /** The table's name in SQL, see {@link #sqlName(JsonNode)}. */
  public String sqlName() {
    return sqlName(metadata);
  }

  /** {@code <namespace>.<table>} as SQL shows it. */
  public String shownName() {
    return namespace() + "." + sqlName();
  }

  /** A table's name in SQL. Anyone who can edit the object can write any name there, so one that means another object is ignored. */
  static String sqlName(JsonNode metadata) {
    String name = metadata.path("name").asText();
    String given = metadata.path("annotations").path(SQL_NAME).asText();
    return Names.ofSql(given).equals(name) ? given : name;
  }

  /** The table's folder in the namespace's. */
  public String directory() {
    return Names.directory(name(), uid());
  }

  /** {@code <namespace>/<table>-<uid8>}. */
  public String folder() {
    return namespace() + "/" + directory();
  }

  // Definition

  /** Properties {@code pipelines.…}, see {@link #PIPELINES}. */
  public Map<String, String> pipelineProperties() {
    Map<String, String> found = new TreeMap<>();
    metadata.path("annotations").properties().stream().filter(annotation -> annotation.getKey().startsWith(PIPELINES))
        .forEach(annotation -> found.put(annotation.getKey().substring(PIPELINES.indexOf('/') + 1), annotation.getValue().asText()));
    return found;
  }

  public JsonNode spec() {
    return spec;
  }

  /** Columns and layout as the spec defines them. */
  public TableLayout layout() {
    return layout;
  }

  /** Comments of columns, by their names in lower case. */
  public Map<String, String> comments() {
    Map<String, String> comments = new TreeMap<>();
    for (JsonNode column : spec.path("columns")) {
      String comment = column.path("comment").asText("");
      if (!comment.isEmpty()) {
        comments.put(Names.lowerCase(column.path("name").asText()), comment);
      }
    }
    return comments;
  }

  /** The group that the spec names; empty = the table is in no group. */
  public String colocateWith() {
    return spec.path("colocateWith").asText("");
  }

  /** The number of buckets that the spec gives; 0 = the group's. */
  public int buckets() {
    return spec.path("buckets").asInt();
  }

  /**
   * How many buckets new files have: as many as those of the newest snapshot; before the first load, as many as the spec gives.
   *
   * @param ofGroup the group's number
   */
  public Buckets buckets(int ofGroup) {
    int given = snapshot().map(Snapshot::buckets).orElse(buckets());
    return given == 0 ? Buckets.asGroup(ofGroup) : new Buckets(ofGroup, given);
  }

  /** Whether writes that leave many small files merge them. */
  public boolean compactsAfterWrites() {
    return spec.path("compaction").path("enabled").asBoolean(false);
  }

  /** Such a write merges the files of each bucket of a partition that has more than this number. */
  public int maxFilesPerBucket() {
    return spec.path("compaction").path("maxFilesPerBucket").asInt(DEFAULT_FILES_PER_BUCKET);
  }

  /**
   * Refuses to write by an invalid spec.
   *
   * @throws WriteException.InvalidTable when the spec has no columns or no bucket key
   */
  ColocatedTable requireSpec() {
    if (!spec.path("columns").isArray() || spec.path("columns").isEmpty() || spec.path("bucketedBy").isEmpty()) {
      throw new WriteException.InvalidTable("InvalidSpec", "the spec of table " + fullName()
          + " cannot be understood: it names no columns or no bucketedBy; correct it");
    }
    return this;
  }

  // What the operator reports

  /** The group whose map places the table's rows: the one in the status, else the spec's; the table's own when it names none. */
  public Names.GroupKey group() {
    String placing = Json.text(status.path("group"));
    return Names.placingGroup(namespace(), name(), uid(), placing.isEmpty() ? colocateWith() : placing);
  }

  /**
   * Why the table takes no reads and changes, or that it is not judged yet; empty when it takes them, or its status is invalid.
   * A table that may not move to the group that it names stays in its old one: it is not accepted, and ready.
   */
  public String refusal() {
    JsonNode ready = condition(status, "Ready");
    return ready.path("status").asText().equals("True") ? "" : judgement(status);
  }

  /** Why the operator refuses the spec; empty when it accepts it, or the status is invalid. */
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

  /** Whether the operator has refused the spec as it is now, for a reason that stays until table or group are changed. */
  public boolean staysRefused() {
    JsonNode accepted = condition(status, "Accepted");
    boolean isOfThisSpec = accepted.path("observedGeneration").asLong(-1) == metadata.path("generation").asLong();
    return !refusal().isEmpty() && isOfThisSpec && LASTING_REFUSALS.contains(accepted.path("reason").asText());
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
   * Refuses a table whose rows are being brought back: it has no snapshot yet, but is not empty.
   *
   * @throws ColocationException (unchecked)
   */
  public void requireRecovered() {
    JsonNode annotations = metadata.path("annotations");
    boolean isRecovering = (annotations.has(RECOVERS) || annotations.has(ADOPTS)) && !status.path("accepted").asBoolean()
        && Json.isAbsent(status.path("snapshot"));
    if (isRecovering) {
      String from = annotations.has(ADOPTS) ? "by `colocation adopt` from files on the nodes" : "from the recycle bin";
      throw new ColocationException("table " + fullName() + " is being brought back " + from + ", and its rows are not there yet ("
          + refusal() + "); run this again when it is accepted: kubectl get colocatedtable " + name() + " -n "
          + namespace()).unchecked();
    }
  }

  // Columns of rows that are stored

  /** The stored columns as rows are shown: by the definition where files with the stored columns fit it, else as stored. */
  public List<Manifest.Column> shownColumns(List<Manifest.Column> stored) {
    List<Manifest.Column> wanted = isBeingReplaced() ? Manifest.columns(status.path("columns")) : layout.columns();
    return SchemaEvolution.refusedChange(stored, wanted).isEmpty() ? wanted : stored;
  }

  /** Whether the spec already defines rows that are still to be committed in place of all present ones. */
  private boolean isBeingReplaced() {
    JsonNode manifest = status.path("snapshot").path("manifest");
    return manifest.isTextual() && manifest.equals(metadata.path("annotations").path(REPLACES));
  }

  /**
   * The columns that a commit has to write into {@code status.columns}, since the operator does not read manifests: those that the
   * new files have, where files could not change from the accepted columns to these. Empty where they could.
   */
  Optional<JsonNode> columnsToReport() {
    List<Manifest.Column> accepted = Manifest.columns(status.path("columns"));
    boolean isKnown = accepted.isEmpty() || SchemaEvolution.refusedChange(accepted, layout.columns()).isEmpty();
    return isKnown ? Optional.empty() : Optional.of(spec.path("columns"));
  }

  // Commits

  /** A snapshot as a merge patch sets it: the fields that only the present one has are null, which removes them. */
  ObjectNode replacingSnapshot(ObjectNode snapshot) {
    ObjectNode patch = snapshot.deepCopy();
    status.path("snapshot").fieldNames().forEachRemaining(name -> {
      if (!patch.has(name)) {
        patch.putNull(name);
      }
    });
    return patch;
  }

  /** The newest snapshot; empty before the first load. */
  public Optional<Snapshot> snapshot() {
    return committed.snapshot();
  }

  /** The newest snapshot's id; 0 before the first load. */
  public long snapshotId() {
    return committed.snapshot().map(Snapshot::id).orElse(0L);
  }

  /** Replaced snapshots that can still be read, the newest first. */
  public List<Snapshot> history() {
    return committed.history();
  }

  /** The newest snapshot and those that can still be read, the newest first. */
  public List<Snapshot> snapshots() {
    return committed.snapshots();
  }

  /** The largest id of any snapshot so far; 0 = none. */
  public long lastId() {
    return committed.lastId();
  }

  public List<CommitRecord> commits() {
    return committed.commits();
  }

  /** The keys of recorded commits, by the ids of the snapshots that they made. */
  public Map<Long, String> commitKeys() {
    Map<Long, String> keys = new HashMap<>();
    committed.commits().forEach(commit -> keys.putIfAbsent(commit.snapshotId(), commit.writer()));
    return Map.copyOf(keys);
  }

  /** The history after a commit at {@code committedAt}, see {@link CommittedState#historyAfter}. */
  public List<Snapshot> historyAfter(Instant committedAt, Instant now) {
    JsonNode retention = spec.path("retention");
    return committed.historyAfter(
        committedAt, now, Duration.ofSeconds(retention.path("seconds").asLong(DEFAULT_RETENTION_SECONDS)),
        retention.path("snapshots").asInt(DEFAULT_RETENTION_SNAPSHOTS));
  }

  /** What is wrong with the part of the status that commits write; empty = nothing. */
  public String statusError() {
    return joined(Stream.concat(committed.snapshotProblems().stream(), committed.commitProblems().stream()));
  }

  private static String joined(Stream<String> problems) {
    String error = problems.collect(Collectors.joining("; "));
    return error.substring(0, Math.min(error.length(), MAX_PROBLEM_CHARACTERS));
  }

  /**
   * Refuses to commit on top of an invalid status.
   *
   * @throws WriteException.InvalidTable with its problems, and how to repair it
   */
  public void requireStatus() {
    if (!statusError().isEmpty()) {
      throw new WriteException.InvalidTable("InvalidStatus", invalidStatus(statusError()));
    }
  }

  /**
   * Refuses to read by invalid snapshots.
   *
   * @throws ColocationException (unchecked) with their problems, and how to repair them
   */
  public void requireSnapshots() {
    if (!committed.snapshotProblems().isEmpty()) {
      throw new ColocationException("InvalidStatus: " + invalidStatus(joined(committed.snapshotProblems().stream()))).unchecked();
    }
  }

  private String invalidStatus(String problems) {
    return "the status of table " + fullName() + " cannot be understood: " + problems
        + "; restore it, or reload the whole table with mode overwrite";
  }

  /** The snapshot of {@code VERSION AS OF}. */
  public Snapshot ofVersion(String version) {
    requireSnapshots();
    return snapshots().stream()
        .filter(snapshot -> String.valueOf(snapshot.id()).equals(version.trim()))
        .findFirst()
        .orElseThrow(() -> notKept("snapshot " + version));
  }

  /** The snapshot of {@code TIMESTAMP AS OF}: the one that a query at that time would have read. */
  public Snapshot ofTime(Instant time) {
    requireSnapshots();
    return snapshots().stream()
        .filter(snapshot -> !snapshot.committedAt().isAfter(time))
        .findFirst()
        .orElseThrow(() -> notKept("snapshot of " + time + " or before"));
  }

  private RuntimeException notKept(String what) {
    String kept = snapshots().stream().map(Snapshot::toString).collect(Collectors.joining(", "));
    return new ColocationException("table " + shownName() + " keeps no " + what + "; it keeps: "
        + (kept.isEmpty() ? "none, nothing was loaded yet" : kept) + ". spec.retention sets how long snapshots are kept").unchecked();
  }
}
