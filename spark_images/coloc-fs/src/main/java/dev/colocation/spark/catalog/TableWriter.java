package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.HttpURLConnection;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** Makes, changes and drops ColocatedTables, and waits for the operator's judgement of them. */
final class TableWriter {
  private static final long POLL_MILLISECONDS = 300;
  private static final int MOST_ATTEMPTS = 10;
  /** There is no such table, or by now another one has its name. */
  private static final Set<Integer> GONE = Set.of(HttpURLConnection.HTTP_NOT_FOUND, HttpURLConnection.HTTP_CONFLICT);
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Which statement made or changed the object last: a request that is sent again, its answer lost, finds its own work. */
  private static final String REQUEST = "colocation.dev/request";

  private final Requests api;
  private final int acceptSeconds;
  private final String request = UUID.randomUUID().toString();

  /** Requests to the API server, see {@link KubernetesApi#send}; small, so that tests can replace it. */
  @FunctionalInterface
  interface Requests {
    KubernetesApi.Answer send(String what, String method, String path, JsonNode body);
  }

  /** Of one statement. */
  TableWriter(Requests api, int acceptSeconds) {
    this.api = api;
    this.acceptSeconds = acceptSeconds;
  }

  /**
   * Makes a table, and the group if it is new: the operator does that. A table that is refused is gone again.
   *
   * @param sqlName as the statement writes it
   * @return false when there is one of this name
   */
  boolean create(String namespace, String sqlName, ObjectNode spec) {
    String name = Names.ofSql(sqlName);
    if (!Names.isObject(name)) {
      throw TableDefinition.refused("its name is '" + sqlName + "'; allowed: ASCII letters, digits, _, - and ., at both ends a "
          + "letter or digit");
    }
    ObjectNode table = JSON.createObjectNode().put("apiVersion", "colocation.dev/v1alpha1").put("kind", "ColocatedTable");
    ObjectNode annotations = table.putObject("metadata").put("name", name).put("namespace", namespace).putObject("annotations");
    annotations.put(REQUEST, request);
    if (!sqlName.equals(name)) {
      annotations.put(TableObject.SQL_NAME, sqlName);
    }
    table.set("spec", spec);
    String what = what(namespace, name);
    KubernetesApi.Answer answer = api.send(what, "POST", KubernetesApi.collection(namespace, KubernetesApi.TABLES), table);
    Optional<JsonNode> own = answer.status() == HttpURLConnection.HTTP_CONFLICT
        ? read(namespace, name).filter(this::isOwn) : Optional.of(KubernetesApi.checked(what, answer));
    if (own.isEmpty()) {
      return false;
    }
    JsonNode made = own.get();
    String refusal = judgement(namespace, name, made);
    if (!refusal.isEmpty()) {
      delete(namespace, name, made.path("metadata").path("uid").asText());
      throw new ColocationException(refusal).unchecked();
    }
    return true;
  }

  private boolean isOwn(JsonNode object) {
    return object.path("metadata").path("annotations").path(REQUEST).asText().equals(request);
  }

  /**
   * Changes a table; a change that is refused is taken back. When someone else, the operator too, writes the table in
   * between, the change is made anew of what they wrote.
   *
   * @param change the fields of the spec that change, of the object as it is by now
   */
  void change(String namespace, String name, Function<JsonNode, ObjectNode> change) {
    String what = what(namespace, name);
    ObjectNode undo = JSON.createObjectNode();
    for (int attempt = 1;; attempt++) {
      JsonNode object = read(namespace, name).orElseThrow(
          () -> new ColocationException(what + " was dropped by someone else").unchecked());
      if (isOwn(object)) {
        settle(namespace, name, object, undo);
        return;
      }
      ObjectNode patch = change.apply(object);
      if (patch.isEmpty()) {
        return;
      }
      undo = TableChanges.undo(object.path("spec"), patch);
      KubernetesApi.Answer answer = sendPatch(namespace, name, object.path("metadata").path("resourceVersion").asText(), patch);
      if (answer.status() == HttpURLConnection.HTTP_CONFLICT && attempt < MOST_ATTEMPTS) {
        pause();
        continue;
      }
      settle(namespace, name, KubernetesApi.checked(what, answer), undo);
      return;
    }
  }

  private void settle(String namespace, String name, JsonNode changed, ObjectNode undo) {
    String refusal = judgement(namespace, name, changed);
    if (!refusal.isEmpty()) {
      patch(namespace, name, undo);
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
      patch(namespace, name, TableChanges.undo(specBefore, patch));
    }
  }

  private void patch(String namespace, String name, ObjectNode spec) {
    KubernetesApi.checked(what(namespace, name), sendPatch(namespace, name, "", spec));
  }

  /** {@code resourceVersion}: that of the object that is changed; empty = whichever is there. */
  private KubernetesApi.Answer sendPatch(String namespace, String name, String resourceVersion, ObjectNode spec) {
    ObjectNode body = JSON.createObjectNode();
    if (!resourceVersion.isEmpty()) {
      body.putObject("metadata").put("resourceVersion", resourceVersion).putObject("annotations").put(REQUEST, request);
    }
    body.set("spec", spec);
    return api.send(what(namespace, name), "PATCH", path(namespace, name), body);
  }

  /**
   * Drops a table: its files wait in the recycle bin. One that is gone is no error: it may have gone by this very request, whose
   * first answer was lost. Whether an answer that says nothing was the last of it is found out by looking.
   *
   * @param uid of the table that is meant; another one of the name stays
   */
  void delete(String namespace, String name, String uid) {
    ObjectNode options = JSON.createObjectNode().put("apiVersion", "v1").put("kind", "DeleteOptions");
    options.putObject("preconditions").put("uid", uid);
    String what = what(namespace, name);
    try {
      KubernetesApi.Answer answer = api.send(what, "DELETE", path(namespace, name), options);
      if (!GONE.contains(answer.status())) {
        KubernetesApi.checked(what, answer);
      }
    } catch (Exception unanswered) {
      if (read(namespace, name).filter(object -> object.path("metadata").path("uid").asText().equals(uid)).isPresent()) {
        throw unanswered;
      }
    }
  }

  Optional<JsonNode> read(String namespace, String name) {
    if (!Names.isObject(name)) {
      return Optional.empty();
    }
    String what = what(namespace, name);
    KubernetesApi.Answer answer = api.send(what, "GET", path(namespace, name), null);
    return answer.status() == HttpURLConnection.HTTP_NOT_FOUND
        ? Optional.empty() : Optional.of(KubernetesApi.checked(what, answer));
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
    throw new ColocationException(what(namespace, name) + " is stored, but the operator has neither accepted nor refused it within "
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
