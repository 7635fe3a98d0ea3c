package dev.colocation.spark.cluster;

import static java.util.Map.entry;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.Contract;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.Manifest;
import java.io.IOException;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** What objects of the API server and manifests mean, as in Python. */
public final class ClusterContractTest {
  public static final Map<String, Contract.Rule> RULES = Map.ofEntries(
      entry("types", ClusterContractTest::type),
      entry("times", given -> shown(Times.parse(given.path("time").asText())
          .orElseThrow(() -> new IllegalArgumentException("it is not a time")))),
      entry("names", ClusterContractTest::names),
      entry("allowed-namespaces", given -> group(given).refusal(given.path("namespace").asText())),
      entry("freshness", given -> SignOfLife.judge(
          given.path("renewTime").asText(), given.path("validSeconds").asDouble(), Instant.parse(given.path("now").asText()),
          "Lease x")),
      entry("specs", given -> spec(table(given.path("spec"), Contract.JSON.createObjectNode()))),
      entry("statuses", given -> status(table(null, given.path("status")))),
      entry("snapshots", given -> snapshot(given.path("snapshot"))),
      entry("kept-snapshots", given -> table(null, given.path("status")).ofVersion(given.path("snapshot").asText()).id()),
      entry("commit-records", given -> commitRecord(given.path("record"))),
      entry("retention", ClusterContractTest::retained),
      entry("schema-evolution", given -> SchemaEvolution.refusedChange(
          Manifest.columns(given.path("stored")), Manifest.columns(given.path("wanted")))),
      entry("manifests", ClusterContractTest::manifest));

  @TestFactory
  List<DynamicTest> rules() throws IOException {
    return Contract.tests(RULES);
  }

  private static String type(JsonNode given) {
    String name = given.path("type").asText();
    if (!TypeNames.isKnown(name)) {
      throw new IllegalArgumentException(given.path("error").asText());
    }
    return TypeNames.canonical(name);
  }

  private static String shown(Instant time) {
    return time.truncatedTo(ChronoUnit.MICROS).toString();
  }

  private static Map<String, String> names(JsonNode given) {
    String table = given.path("table").asText();
    String uid = given.path("uid").asText();
    String namespace = given.path("namespace").asText();
    Names.GroupKey group = Names.group(namespace, given.path("colocateWith").asText());
    return Map.of(
        "directory", Names.directory(table, uid), "privateGroup", Names.privateGroup(table, uid), "group", group.toString(),
        "configMap", group.configMapIn(namespace), "reference", group.referenceFrom(namespace));
  }

  private static ColocationGroup group(JsonNode given) {
    ObjectNode object = Contract.JSON.createObjectNode();
    object.putObject("metadata").put("namespace", "accounts").put("name", "sales");
    ObjectNode spec = object.putObject("spec").put("buckets", 8).put("replicas", 2);
    spec.putArray("bucketKey").add("bigint");
    spec.set("allowedNamespaces", given.path("allowedNamespaces"));
    return ColocationGroup.parse(object);
  }

  /** @param spec null = of one column */
  private static ColocatedTable table(JsonNode spec, JsonNode status) {
    ObjectNode object = Contract.JSON.createObjectNode();
    object.putObject("metadata").put("namespace", "shop").put("name", "orders").put("uid", "12345678-aaaa");
    object.set("status", status);
    if (spec == null) {
      ObjectNode plain = object.putObject("spec").put("colocateWith", "sales");
      plain.putArray("bucketedBy").add("k");
      plain.putArray("columns").addObject().put("name", "k").put("type", "bigint");
    } else {
      object.set("spec", spec);
    }
    return ColocatedTable.parse(object).requireSpec();
  }

  private static Map<String, Object> spec(ColocatedTable table) {
    TableLayout layout = table.layout();
    return Map.of(
        "columns", layout.columns(), "bucketedBy", layout.bucketedBy(), "partitionedBy", layout.partitionedBy(),
        "sortedBy", layout.sortedBy(), "group", table.group().toString(),
        "compaction", Map.of("enabled", table.compactsAfterWrites(), "maxFilesPerBucket", table.maxFilesPerBucket()));
  }

  private static Map<String, Object> status(ColocatedTable table) {
    return Map.of(
        "isSound", table.statusError().isEmpty(),
        "snapshot", table.snapshotId(),
        "history", table.history().stream().map(Snapshot::id).toList(),
        "commits", table.commits().stream().map(record -> List.of(record.writer(), record.version(), record.snapshotId())).toList(),
        "group", table.group().toString());
  }

  private static Map<String, Object> snapshot(JsonNode given) {
    Optional<String> problem = Snapshot.problem(given, "snapshot");
    if (problem.isPresent()) {
      throw new IllegalArgumentException(problem.get());
    }
    Snapshot snapshot = Snapshot.of(given);
    Map<String, Object> shown = new TreeMap<>(Map.of(
        "id", snapshot.id(), "manifest", snapshot.manifestSha256(), "committedAt", shown(snapshot.committedAt())));
    ChangeCounts changed = snapshot.changed();
    if (!changed.equals(ChangeCounts.UNKNOWN)) {
      shown.put("changed", Arrays.asList(
          changed.rows().map(RowCounts::inserted).orElse(null), changed.rows().map(RowCounts::updated).orElse(null),
          changed.rows().map(RowCounts::deleted).orElse(null), changed.filesAdded().getAsLong(),
          changed.filesRemoved().getAsLong()));
    }
    return shown;
  }

  private static List<Object> commitRecord(JsonNode given) {
    Optional<String> problem = CommitKey.CommitRecord.problem(given, "record");
    if (problem.isPresent()) {
      throw new IllegalArgumentException(problem.get());
    }
    CommitKey.CommitRecord record = CommitKey.CommitRecord.of(given);
    return List.of(record.writer(), record.version(), record.snapshotId());
  }

  /** Which of the snapshots stay when the first one is committed. */
  private static List<Long> retained(JsonNode given) {
    List<Snapshot> snapshots = new java.util.ArrayList<>();
    for (JsonNode time : given.path("committedAt")) {
      ObjectNode json = Contract.JSON.createObjectNode().put("id", 1000 - snapshots.size())
          .put("manifest", "sha256:" + "0".repeat(64)).put("committedAt", time.asText());
      snapshots.add(Snapshot.of(json));
    }
    ObjectNode spec = Contract.JSON.createObjectNode();
    spec.putArray("bucketedBy").add("k");
    spec.putArray("columns").addObject().put("name", "k").put("type", "bigint");
    spec.set("retention", given.path("retention"));
    ObjectNode status = Contract.JSON.createObjectNode();
    if (snapshots.size() > 1) {
      status.set("snapshot", snapshots.get(1).json());
      snapshots.stream().skip(2).map(Snapshot::json).forEach(status.putArray("history")::add);
    }
    return table(spec, status).historyAfter(snapshots.get(0).committedAt(), Instant.parse(given.path("now").asText()))
        .stream().map(Snapshot::id).toList();
  }

  private static Map<String, Object> manifest(JsonNode given) throws IOException {
    byte[] stored = Contract.storedManifest(given);
    StoredManifest manifest = StoredManifest.decode(stored, StoredManifest.sha256(stored));
    return Map.of(
        "snapshotId", manifest.snapshotId(), "buckets", shown(manifest.buckets()), "columns", manifest.columns(),
        "bucketedBy", manifest.names("bucketedBy"), "partitionedBy", manifest.names("partitionedBy"),
        "sortedBy", manifest.names("sortedBy"), "padded", manifest.padded(Map.of()),
        "files", manifest.files().stream().sorted(java.util.Comparator.comparing(DataFile::path))
            .map(file -> List.of(file.path(), file.bucket(), file.bytes())).toList());
  }

  private static Object shown(Buckets buckets) {
    return buckets.areEqual() ? buckets.ofTable() : List.of(buckets.ofGroup(), buckets.ofTable());
  }
}
