package dev.colocation.spark.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.KubernetesApi.Answer;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** An API server in memory: objects with resource versions, merge patches with preconditions, and answers that get lost. */
final class FakeCluster implements Cluster.Requests {
  static final String NAMESPACE = "shop";
  static final String UID = "12345678-aaaa";
  static final ObjectMapper JSON = new ObjectMapper();

  private static final String OWN = "/apis/colocation.dev/v1alpha1/namespaces/shop/";
  private static final String TABLE = OWN + "colocatedtables/orders";

  /** What becomes of a write. Only {@link #DO} is answered. */
  enum Fate { DO, DO_AND_LOSE, LOSE, DO_LATER, FAIL_AFTER, FAIL_BEFORE }

  final Map<String, ObjectNode> objects = new TreeMap<>();
  /** Of the next writes; then all are carried out and answered. */
  final Deque<Fate> writes = new ArrayDeque<>();
  /** Statuses of the next reads, 0 = no answer; then all are answered. */
  final Deque<Integer> reads = new ArrayDeque<>();
  /** Runs once, before the next read of a table. */
  Runnable beforeRead = () -> {};
  /** Runs once, before the next write. */
  Runnable beforeWrite = () -> {};
  /** Status of all reads; 200 = as it is. */
  int allReads = 200;
  /** Fields of a table's status that the definition of an older release does not have. */
  final List<String> pruned = new ArrayList<>();
  /** What answers say. */
  Optional<Instant> time = Optional.empty();
  final List<JsonNode> patches = new ArrayList<>();
  private final List<Runnable> late = new ArrayList<>();
  private int version;

  FakeCluster() {
    add(TABLE, String.format(Locale.ROOT, """
        {"metadata": {"namespace": "shop", "name": "orders", "uid": "%s"},
         "spec": {"colocateWith": "sales", "bucketedBy": ["id"], "partitionedBy": ["day"], "columns": [
           {"name": "id", "type": "bigint"}, {"name": "day", "type": "string"}]},
         "status": {"accepted": true}}""", UID));
    add(OWN + "colocationgroups/sales", """
        {"metadata": {"namespace": "shop", "name": "sales", "uid": "g"},
         "spec": {"bucketKey": ["bigint"], "buckets": 2, "replicas": 2},
         "status": {"stable": true, "backendsPerBucketSeq": [["node-1", "node-2"], ["node-2", "node-3"]]}}""");
    add("/api/v1/namespaces/shop/configmaps/sales-spark", """
        {"metadata": {"namespace": "shop", "name": "sales-spark", "uid": "c"}, "data": {"agents.json":
         "{\\"node-1\\": \\"https://node-1:8440\\", \\"node-2\\": \\"https://node-2:8440\\", \\"node-3\\": \\"https://node-3:8440\\"}"}}""");
  }

  private void add(String path, String json) {
    ObjectNode object = parsed(json);
    objects.put(path, object);
    touch(object);
  }

  static ObjectNode parsed(String json) {
    try {
      return (ObjectNode) JSON.readTree(json.replace('\n', ' '));
    } catch (java.io.IOException error) {
      throw new IllegalArgumentException(error);
    }
  }

  ObjectNode table() {
    return objects.get(TABLE);
  }

  ObjectNode group() {
    return objects.get(OWN + "colocationgroups/sales");
  }

  ObjectNode spec() {
    return (ObjectNode) table().path("spec");
  }

  ObjectNode status() {
    return (ObjectNode) table().path("status");
  }

  ColocatedTable state() {
    return ColocatedTable.parse(table().deepCopy());
  }

  void remove(String kind) {
    objects.keySet().removeIf(path -> path.contains(kind));
  }

  /** As somebody else changes the object. */
  void touch(ObjectNode object) {
    ((ObjectNode) object.path("metadata")).put("resourceVersion", String.valueOf(++version));
  }

  /** The table is dropped, and made again under its name. */
  void recreate() {
    ((ObjectNode) table().path("metadata")).put("uid", "87654321-bbbb");
    status().removeAll().put("accepted", true);
    touch(table());
  }

  @Override
  public synchronized Answer sendOnce(String method, String path, JsonNode body) {
    return method.equals("PATCH") ? write(path, body) : read(path);
  }

  private Answer read(String path) {
    boolean isTable = path.equals(TABLE);
    if (isTable && allReads != 200) {
      return failed(allReads);
    }
    if (isTable && !reads.isEmpty()) {
      return failed(reads.pop());
    }
    if (isTable) {
      Runnable first = beforeRead;
      beforeRead = () -> {};
      first.run();
    }
    Answer answer = objects.containsKey(path) ? ok(objects.get(path)) : failed(404);
    late.forEach(Runnable::run);
    late.clear();
    return answer;
  }

  private Answer write(String path, JsonNode body) {
    patches.add(body.deepCopy());
    Runnable first = beforeWrite;
    beforeWrite = () -> {};
    first.run();
    Fate fate = writes.isEmpty() ? Fate.DO : writes.pop();
    JsonNode sent = body.deepCopy();
    Answer answer = switch (fate) {
      case DO, DO_AND_LOSE, FAIL_AFTER -> compareAndSet(path, sent);
      case DO_LATER -> {
        late.add(() -> compareAndSet(path, sent));
        yield null;
      }
      case LOSE, FAIL_BEFORE -> null;
    };
    return switch (fate) {
      case DO -> answer;
      case FAIL_AFTER, FAIL_BEFORE -> failed(500);
      case LOSE -> failed(0);
      case DO_AND_LOSE, DO_LATER -> failed(504);
    };
  }

  private Answer compareAndSet(String path, JsonNode body) {
    ObjectNode object = objects.get(path.replaceAll("/status$", ""));
    JsonNode metadata = object.path("metadata");
    for (String condition : List.of("resourceVersion", "uid")) {
      if (!metadata.path(condition).equals(body.path("metadata").path(condition))) {
        return failed(409);
      }
    }
    ObjectNode status = (ObjectNode) object.path("status");
    body.path("status").properties().stream().filter(field -> !pruned.contains(field.getKey()))
        .forEach(field -> merge(status, field.getKey(), field.getValue()));
    touch(object);
    return ok(object);
  }

  /** As a merge patch does: objects are merged, null removes a field. */
  private static void merge(ObjectNode target, String name, JsonNode value) {
    if (value.isNull()) {
      target.remove(name);
    } else if (value.isObject()) {
      ObjectNode merged = target.path(name).isObject() ? (ObjectNode) target.path(name) : target.putObject(name);
      value.properties().forEach(field -> merge(merged, field.getKey(), field.getValue()));
    } else {
      target.set(name, value);
    }
  }

  private Answer ok(ObjectNode object) {
    return new Answer(200, object.deepCopy(), time);
  }

  private Answer failed(int status) {
    return new Answer(status, JSON.createObjectNode().put("message", status == 504 ? "Gateway Timeout" : "as set"), time);
  }

  /** {@code status.commits} as texts: writer, version, snapshot. */
  List<String> commits() {
    List<String> found = new ArrayList<>();
    status().path("commits").forEach(one -> found.add(one.path("writer").asText() + " "
        + one.path("version").asLong() + " " + one.path("snapshotId").asLong()));
    return found;
  }
}
