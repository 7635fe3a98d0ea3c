package dev.colocation.spark.cluster;

import com.fasterxml.jackson.databind.JsonNode;
import dev.colocation.spark.cluster.CommitKey.CommitRecord;
import dev.colocation.spark.fs.Manifest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * A ColocatedTable as it was at {@code resourceVersion}, as far as changes of its files need it. Whoever loads tables may
 * write their status: nothing of it is believed before it was checked.
 *
 * @param spec as the object has it
 * @param sortedBy order of rows within a file; the bucket key unless the spec says another
 * @param refusal why the operator refused it, or that it has not judged it yet; empty when it is accepted
 * @param snapshot empty before the first load
 * @param history replaced snapshots that can still be read, the newest first
 * @param acceptedColumns those that the operator accepted last, which files fit; empty = it has not said so
 * @param statusError what is wrong with that part of the status which loads write; empty = nothing. What can be understood is
 *     in the other fields.
 * @param lostId the id of a snapshot that cannot be understood, as far as it says one; else 0
 */
public record TableState(
    String namespace, String name, String uid, String resourceVersion, JsonNode spec, List<String> bucketedBy,
    List<String> partitionedBy, List<String> sortedBy, Names.GroupKey group, String refusal, Optional<Snapshot> snapshot,
    List<Snapshot> history, List<CommitRecord> commits, List<Manifest.Column> acceptedColumns, String statusError, long lostId) {

  private static final int MAX_HISTORY = 100;
  private static final int MAX_MESSAGE_CHARACTERS = 1000;
  private static final int DEFAULT_RETENTION_SECONDS = 86400;
  private static final int DEFAULT_RETENTION_SNAPSHOTS = 10;
  private static final int DEFAULT_FILES_PER_BUCKET = 8;

  /**
   * Reads an object of the API server.
   *
   * @throws WriteException.InvalidTable when its spec cannot be understood
   */
  public static TableState parse(JsonNode object) {
    JsonNode metadata = object.path("metadata");
    JsonNode spec = object.path("spec");
    JsonNode status = object.path("status");
    String namespace = metadata.path("namespace").asText();
    String name = metadata.path("name").asText();
    String uid = metadata.path("uid").asText();
    if (!spec.path("columns").isArray() || spec.path("columns").isEmpty() || spec.path("bucketedBy").isEmpty()) {
      throw new WriteException.InvalidTable("InvalidSpec", "the spec of table " + namespace + "." + name
          + " cannot be understood: it names no columns or no bucketedBy; correct it");
    }
    List<String> bucketedBy = GroupObject.texts(spec.path("bucketedBy"));
    List<String> sortedBy = GroupObject.texts(spec.path("sortedBy"));
    List<String> problems = new ArrayList<>();
    JsonNode newest = status.path("snapshot");
    Optional<Snapshot> snapshot = GroupObject.isAbsent(newest) ? Optional.empty()
        : items(Stream.of(newest), (node, index) -> Snapshot.problem(node, "status.snapshot"), Snapshot::of, problems)
            .stream().findFirst();
    List<Snapshot> history = list(
        status, "history", MAX_HISTORY, Snapshot::problem, Snapshot::of, problems);
    List<CommitRecord> commits = list(
        status, "commits", CommitRecord.MAX_RECORDS, CommitRecord::problem, CommitRecord::of, problems);
    String error = String.join("; ", problems);
    return new TableState(
        namespace, name, uid, metadata.path("resourceVersion").asText(), spec, bucketedBy,
        GroupObject.texts(spec.path("partitionedBy")), sortedBy.isEmpty() ? bucketedBy : sortedBy,
        placingGroup(namespace, name, uid, spec, status), TableObject.refusal(status), snapshot, history, commits,
        Manifest.columns(status.path("columns")), error.substring(0, Math.min(error.length(), MAX_MESSAGE_CHARACTERS)), problems.isEmpty() ? 0 : lostId(newest));
  }

  private static <T> List<T> list(
      JsonNode status, String field, int most, BiFunction<JsonNode, String, Optional<String>> problem,
      Function<JsonNode, T> parse, List<String> problems) {
    JsonNode given = status.path(field);
    String where = "status." + field;
    if (GroupObject.isAbsent(given)) {
      return List.of();
    }
    if (!given.isArray()) {
      problems.add(where + " is " + Snapshot.shown(given) + "; allowed: a list");
      return List.of();
    }
    if (given.size() > most) {
      problems.add(where + " has " + given.size() + " items; allowed: at most " + most);
    }
    List<JsonNode> nodes = new ArrayList<>();
    given.forEach(nodes::add);
    List<T> valid = items(nodes.stream(), (node, index) -> problem.apply(node, where + "[" + index + "]"), parse, problems);
    return valid.subList(0, Math.min(valid.size(), most));
  }

  private static <T> List<T> items(
      Stream<JsonNode> given, BiFunction<JsonNode, Integer, Optional<String>> problem, Function<JsonNode, T> parse,
      List<String> problems) {
    List<T> valid = new ArrayList<>();
    int index = 0;
    for (JsonNode node : given.toList()) {
      Optional<String> wrong = problem.apply(node, index++);
      wrong.ifPresentOrElse(problems::add, () -> valid.add(parse.apply(node)));
    }
    return valid;
  }

  /** The id of a snapshot of which something else cannot be understood; 0 = it says none that can be counted on. */
  private static long lostId(JsonNode snapshot) {
    JsonNode id = snapshot.path("id");
    return Snapshot.isCount(id) && id.asLong() < CommitKey.MAX_VERSION / 2 ? id.asLong() : 0;
  }

  private static Names.GroupKey placingGroup(
      String namespace, String name, String uid, JsonNode spec, JsonNode status) {
    String placing = status.path("group").isTextual() ? status.path("group").asText() : "";
    return Names.placingGroup(namespace, name, uid, placing.isEmpty() ? spec.path("colocateWith").asText("") : placing);
  }

  /** {@code <namespace>.<table>}. */
  public String fullName() {
    return namespace + "." + name;
  }

  /** Its folder below the namespace's. */
  public String directory() {
    return Names.directory(name, uid);
  }

  /** As the spec says, in its order; partition columns are among them. */
  public List<Manifest.Column> columns() {
    return Manifest.columns(spec.path("columns"));
  }

  /**
   * What a commit has to write into {@code status.columns}: those that its files fit, when the operator would take the spec's for
   * a change that files cannot bear. It does not read manifests.
   */
  Optional<JsonNode> columnsToTell() {
    boolean isKnown = acceptedColumns.isEmpty() || SchemaEvolution.refusedChange(acceptedColumns, columns()).isEmpty();
    return isKnown ? Optional.empty() : Optional.of(spec.path("columns"));
  }

  /** The partition columns as files and folders name them, in the table's order. */
  public List<String> partitionColumns() {
    List<Manifest.Column> columns = columns();
    return partitionedBy.stream()
        .map(name -> columns.stream().filter(column -> column.name().equalsIgnoreCase(name)).findFirst()
            .map(Manifest.Column::storedName).orElse(name))
        .toList();
  }

  /** The newest snapshot's; 0 before the first load. */
  public long snapshotId() {
    return snapshot.map(Snapshot::id).orElse(0L);
  }

  /** The same table as it was before its later snapshots. */
  public TableState withSnapshot(Optional<Snapshot> older) {
    return new TableState(
        namespace, name, uid, resourceVersion, spec, bucketedBy, partitionedBy, sortedBy, group, refusal, older, history, commits,
        acceptedColumns, statusError, lostId);
  }

  /** The newest snapshot and those that can still be read. */
  public List<Snapshot> listed() {
    return Stream.concat(snapshot.stream(), history.stream()).toList();
  }

  /** The largest id that a snapshot of it had; 0 = none. */
  public long lastId() {
    return Math.max(lostId, listed().stream().mapToLong(Snapshot::id).max().orElse(0));
  }

  Duration retention() {
    return Duration.ofSeconds(spec.path("retention").path("seconds").asLong(DEFAULT_RETENTION_SECONDS));
  }

  int retainedSnapshots() {
    return spec.path("retention").path("snapshots").asInt(DEFAULT_RETENTION_SNAPSHOTS);
  }

  /** Whether writes that leave many small files merge them. */
  public boolean compactsAfterWrites() {
    return spec.path("compaction").path("enabled").asBoolean(false);
  }

  /** A bucket of a partition that has more files is merged then. */
  public int maxFilesPerBucket() {
    return spec.path("compaction").path("maxFilesPerBucket").asInt(DEFAULT_FILES_PER_BUCKET);
  }

  /**
   * Refuses to rely on a status that somebody spoiled.
   *
   * @throws WriteException.InvalidTable saying what is wrong with it, and how to mend it
   */
  public void checkStatus() {
    if (!statusError.isEmpty()) {
      throw new WriteException.InvalidTable("InvalidStatus", "the status of table " + fullName() + " cannot be understood: "
          + statusError + "; restore it, or reload the whole table with mode overwrite");
    }
  }
}
