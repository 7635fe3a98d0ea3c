package dev.colocation.spark.cluster;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.CommitKey.CommitRecord;
import dev.colocation.spark.cluster.KubernetesApi.ServerClock;
import java.net.HttpURLConnection;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Reads tables, groups and agents' addresses from the API server, and sets a table's snapshot there by a compare-and-set. */
public final class Cluster {
  /** Requests to the API server; tests replace it. */
  @FunctionalInterface
  public interface Requests {
    /**
     * One request, sent once: repeating a change whose answer was lost could make it twice.
     *
     * @param body JSON; null = none
     * @return with status {@link KubernetesApi#NO_ANSWER} when no answer came
     */
    KubernetesApi.Answer sendOnce(String method, String path, JsonNode body);
  }

  private static final ObjectMapper JSON = new ObjectMapper();

  private final Cluster.Requests api;
  private final ServerClock clock;

  public Cluster(Cluster.Requests api, Timer timer) {
    this.api = api;
    clock = new ServerClock(timer::nanos, timer::now);
  }

  /** The API server's time by a new request, since the clock of a machine that was suspended has not advanced meanwhile. */
  public Instant askTime() {
    send("GET", "/version", null);
    if (Thread.currentThread().isInterrupted()) {
      throw new WriteException("cancelled");
    }
    return now();
  }

  /** The API server's time, by its last answer. */
  public Instant now() {
    return clock.now();
  }

  private KubernetesApi.Answer send(String method, String path, JsonNode body) {
    KubernetesApi.Answer answer = api.sendOnce(method, path, body);
    clock.hear(answer.serverTime());
    return answer;
  }

  /** The object does not exist. */
  public static final class NotThere extends WriteException {
    private static final long serialVersionUID = 1L;

    public NotThere(String message) {
      super(message);
    }
  }

  public ColocatedTable table(String namespace, String name) throws NoAnswer {
    return ColocatedTable.parse(own("ColocatedTable", KubernetesApi.TABLES, namespace, name)).requireSpec();
  }

  public ColocationGroup group(Names.GroupKey key) throws NoAnswer {
    return ColocationGroup.parse(own("ColocationGroup", KubernetesApi.GROUPS, key.namespace(), key.name()));
  }

  /** URLs of ready agents by node, for readers and writers of a group's tables in {@code namespace}. */
  public Map<String, String> agents(String namespace, Names.GroupKey group) throws NoAnswer {
    String name = group.configMapIn(namespace);
    String what = "ConfigMap " + namespace + "/" + name;
    JsonNode data = get(what, "/api/v1/namespaces/" + namespace + "/configmaps/" + name).path("data");
    try {
      return ColocationGroup.agents(data, ColocationGroup.READY_AGENTS);
    } catch (JsonProcessingException error) {
      throw new WriteException(ColocationGroup.READY_AGENTS + " of " + what + " cannot be read: " + error.getMessage(), error);
    }
  }

  /**
   * Sets {@code status.snapshot} and {@code status.history} if the table has not changed since it was read, and {@code
   * status.columns} where rows with other columns replace all present ones.
   *
   * @param commits all of {@code status.commits}; empty = they stay as they are
   * @return the table after the commit
   * @throws WriteConflict when the table has changed; nothing was done
   * @throws NoAnswer when it is unknown whether it was done: read the table
   */
  public JsonNode commit(ColocatedTable table, ObjectNode snapshot, List<Snapshot> history, Optional<List<CommitRecord>> commits)
      throws WriteConflict, NoAnswer {
    ObjectNode body = JSON.createObjectNode();
    body.putObject("metadata").put("resourceVersion", table.resourceVersion()).put("uid", table.uid());
    ObjectNode status = body.putObject("status");
    status.set("snapshot", table.replacingSnapshot(snapshot));
    ArrayNode replaced = status.putArray("history");
    history.forEach(one -> replaced.add(one.json()));
    table.columnsToReport().ifPresent(columns -> status.set("columns", columns));
    commits.ifPresent(records -> {
      ArrayNode kept = status.putArray("commits");
      records.forEach(record -> kept.add(record.json()));
    });
    String what = what("ColocatedTable", table.namespace(), table.name());
    String path = path(KubernetesApi.TABLES, table.namespace(), table.name()) + "/status";
    KubernetesApi.Answer answer = send("PATCH", path, body);
    if (answer.status() == HttpURLConnection.HTTP_CONFLICT) {
      throw new WriteConflict(what + " was changed by someone else");
    }
    return checked(what, answer);
  }

  private JsonNode own(String kind, String plural, String namespace, String name) throws NoAnswer {
    String what = what(kind, namespace, name);
    if (!Names.isObject(namespace) || !Names.isObject(name)) {
      throw new NotThere(what + " does not exist");
    }
    return get(what, path(plural, namespace, name));
  }

  private JsonNode get(String what, String path) throws NoAnswer {
    return checked(what, send("GET", path, null));
  }

  private static JsonNode checked(String what, KubernetesApi.Answer answer) throws NoAnswer {
    if (answer.isSuccess()) {
      return answer.body();
    }
    if (ApiRetries.isTransient(answer)) {
      throw new NoAnswer(KubernetesApi.refusal(what, answer));
    }
    if (answer.status() == HttpURLConnection.HTTP_NOT_FOUND) {
      throw new NotThere(what + " does not exist");
    }
    throw new WriteException(KubernetesApi.refusal(what, answer));
  }

  private static String what(String kind, String namespace, String name) {
    return kind + " " + namespace + "/" + name;
  }

  private static String path(String plural, String namespace, String name) {
    return KubernetesApi.collection(namespace, plural) + "/" + name;
  }

  /** The API server failed, or did not answer: it may have carried out the request, or may still do so. */
  public static final class NoAnswer extends Exception {
    private static final long serialVersionUID = 1L;

    NoAnswer(String message) {
      super(message);
    }
  }

  /** Another client has changed the object since it was read; this write did nothing. */
  public static final class WriteConflict extends Exception {
    private static final long serialVersionUID = 1L;

    WriteConflict(String message) {
      super(message);
    }
  }
}
