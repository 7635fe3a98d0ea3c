package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.HttpURLConnection;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** Makes, changes and drops ColocatedTables, and waits for the operator's judgement of them. */
final class TableWriter {
  private static final long POLL_MILLISECONDS = 300;
  private static final ObjectMapper JSON = new ObjectMapper();

  private final KubernetesApi api;
  private final int acceptSeconds;

  TableWriter(KubernetesApi api, int acceptSeconds) {
    this.api = api;
    this.acceptSeconds = acceptSeconds;
  }

  /**
   * Makes a table, and the group if it is new: the operator does that. A table that is refused is gone again.
   *
   * @return false when there is one of this name
   */
  boolean create(String namespace, String name, ObjectNode spec) {
    if (!Names.isObject(name)) {
      throw TableDefinition.refused("its name is '" + name + "'; allowed: letters in lower case, digits, - and .");
    }
    ObjectNode table = JSON.createObjectNode().put("apiVersion", "colocation.dev/v1alpha1").put("kind", "ColocatedTable");
    table.putObject("metadata").put("name", name).put("namespace", namespace);
    table.set("spec", spec);
    String what = what(namespace, name);
    KubernetesApi.Answer answer = api.send(what, "POST", KubernetesApi.collection(namespace, KubernetesApi.TABLES), table);
    if (answer.status() == HttpURLConnection.HTTP_CONFLICT) {
      return false;
    }
    JsonNode made = KubernetesApi.checked(what, answer);
    String refusal = judgement(namespace, name, made);
    if (!refusal.isEmpty()) {
      delete(namespace, name, made.path("metadata").path("uid").asText());
      throw new ColocationException(refusal).unchecked();
    }
    return true;
  }

  /** Changes a table; a change that is refused is taken back. */
  void change(String namespace, String name, JsonNode object, ObjectNode patch) {
    if (patch.isEmpty()) {
      return;
    }
    JsonNode changed = patch(namespace, name, object.path("metadata").path("resourceVersion").asText(), patch);
    String refusal = judgement(namespace, name, changed);
    if (!refusal.isEmpty()) {
      patch(namespace, name, "", TableChanges.undo(object.path("spec"), patch));
      throw new ColocationException(refusal).unchecked();
    }
  }

  /** Asks the API server whether it would take a change; nothing is changed. */
  void validate(String namespace, String name, ObjectNode patch) {
    if (!patch.isEmpty()) {
      String what = what(namespace, name);
      ObjectNode body = JSON.createObjectNode();
      body.set("spec", patch);
      KubernetesApi.checked(what, api.send(what, "PATCH", path(namespace, name) + "?dryRun=All", body));
    }
  }

  /** Takes back a change. */
  void undo(String namespace, String name, JsonNode specBefore, ObjectNode patch) {
    if (!patch.isEmpty()) {
      patch(namespace, name, "", TableChanges.undo(specBefore, patch));
    }
  }

  private JsonNode patch(String namespace, String name, String resourceVersion, ObjectNode spec) {
    ObjectNode body = JSON.createObjectNode();
    if (!resourceVersion.isEmpty()) {
      body.putObject("metadata").put("resourceVersion", resourceVersion);
    }
    body.set("spec", spec);
    String what = what(namespace, name);
    return KubernetesApi.checked(what, api.send(what, "PATCH", path(namespace, name), body));
  }

  /**
   * Drops a table: its files wait in the recycle bin.
   *
   * @param uid of the table that is meant; empty = whichever has the name
   * @return false when there is none
   */
  boolean delete(String namespace, String name, String uid) {
    ObjectNode options = JSON.createObjectNode().put("apiVersion", "v1").put("kind", "DeleteOptions");
    if (!uid.isEmpty()) {
      options.putObject("preconditions").put("uid", uid);
    }
    String what = what(namespace, name);
    KubernetesApi.Answer answer = api.send(what, "DELETE", path(namespace, name), options);
    return answer.status() != HttpURLConnection.HTTP_NOT_FOUND && !KubernetesApi.checked(what, answer).isMissingNode();
  }

  Optional<JsonNode> read(String namespace, String name) {
    return Names.isObject(name) ? api.get(what(namespace, name), path(namespace, name)) : Optional.empty();
  }

  /** What the operator says against the table as it is now, in its own words; empty when it accepts it. */
  private String judgement(String namespace, String name, JsonNode written) {
    long generation = written.path("metadata").path("generation").asLong();
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(acceptSeconds);
    while (System.nanoTime() < deadline) {
      JsonNode status = read(namespace, name).map(object -> object.path("status")).orElse(JSON.createObjectNode());
      if (status.path("observedGeneration").asLong() >= generation && status.path("accepted").isBoolean()) {
        return status.path("accepted").asBoolean() ? "" : TableObject.refusal(status);
      }
      pause();
    }
    throw new ColocationException(what(namespace, name) + " is written, but the operator has not judged it within "
        + acceptSeconds + " s; see `colocation tables`, or whether the operator runs").unchecked();
  }

  private static void pause() {
    try {
      TimeUnit.MILLISECONDS.sleep(POLL_MILLISECONDS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new ColocationException("cancelled", error).unchecked();
    }
  }

  private static String what(String namespace, String name) {
    return "ColocatedTable " + namespace + "/" + name;
  }

  private static String path(String namespace, String name) {
    return KubernetesApi.collection(namespace, KubernetesApi.TABLES) + "/" + name;
  }
}
