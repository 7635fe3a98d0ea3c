package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.KubernetesApi;
import dev.colocation.spark.cluster.Names;
import dev.colocation.spark.write.Transaction;
import java.net.HttpURLConnection;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** Creates, changes and drops ColocatedTables, and waits until the operator accepts or refuses them. */
final class TableWriter {
  private static final long FIRST_PAUSE_MILLISECONDS = 20;
  private static final long LONGEST_PAUSE_MILLISECONDS = 300;
  private static final int MOST_ATTEMPTS = 10;
  /** There is no such table, or another one now has its name. */
  private static final Set<Integer> GONE = Set.of(HttpURLConnection.HTTP_NOT_FOUND, HttpURLConnection.HTTP_CONFLICT);
  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * An annotation with the statement that wrote the object last, by which a repeated request, whose first answer was lost,
   * recognizes its own work.
   */
  private static final String REQUEST = "colocation.dev/request";

  /** The outcome for a definition that the operator has not judged. */
  private static final String STORED = " was stored, but";

  private final RetriedRequests api;
  private final int acceptSeconds;
  private final String request = UUID.randomUUID().toString();

  /** Requests to the API server, see {@link KubernetesApi#send}; tests replace it. */
  @FunctionalInterface
  interface RetriedRequests {
    KubernetesApi.Answer send(String what, String method, String path, JsonNode body);
  }

  /** A writer for one statement. */
  TableWriter(RetriedRequests api, int acceptSeconds) {
    this.api = api;
    this.acceptSeconds = acceptSeconds;
  }

  /**
   * Creates a table; the operator creates its group if that is new. A table that is refused is dropped again.
   *
   * @param sqlName the name in the statement
   * @param more annotations of the object
   * @return false when a table of this name exists
   */
  boolean create(String namespace, String sqlName, ObjectNode spec, Map<String, String> more) {
    String name = Names.ofSql(sqlName);
    if (!Names.isObject(name)) {
      throw TableDefinition.refused("its name is '" + sqlName + "'; allowed: ASCII letters, digits, _, - and ., at both ends a "
          + "letter or digit");
    }
    ObjectNode table = JSON.createObjectNode().put("apiVersion", KubernetesApi.OWN_VERSION).put("kind", "ColocatedTable");
    ObjectNode annotations = table.putObject("metadata").put("name", name).put("namespace", namespace).putObject("annotations");
    more.forEach(annotations::put);
    annotations.put(REQUEST, request);
    if (!sqlName.equals(name)) {
      annotations.put(ColocatedTable.SQL_NAME, sqlName);
    }
    table.set("spec", spec);
    String what = what(namespace, name);
    KubernetesApi.Answer answer = api.send(what, "POST",
        KubernetesApi.collection(namespace, KubernetesApi.TABLES) + KubernetesApi.KNOWN_FIELDS_ONLY, table);
    Optional<JsonNode> own = answer.status() == HttpURLConnection.HTTP_CONFLICT
        ? read(namespace, name).filter(this::isOwn) : Optional.of(KubernetesApi.checked(what, answer));
    if (own.isEmpty()) {
      return false;
    }
    JsonNode made = own.get();
    String refusal = judgement(namespace, name, made, STORED);
    if (!refusal.isEmpty()) {
      delete(namespace, name, made.path("metadata").path("uid").asText());
      throw new ColocationException(refusal).unchecked();
    }
    return true;
  }

  /** Sets annotations of a table, and removes those that are null. */
  void annotate(String namespace, String name, Map<String, String> annotations) {
    if (!annotations.isEmpty()) {
      ObjectNode body = JSON.createObjectNode();
      annotations.forEach(body.putObject("metadata").putObject("annotations")::put);
      String what = what(namespace, name);
      KubernetesApi.checked(what, api.send(what, "PATCH", path(namespace, name), body));
    }
  }

  /** Drops the table that this statement has created, if any, after a failure or a cancellation. */
  void takeBack(String namespace, String sqlName, Exception failure) {
    boolean isCancelled = Thread.interrupted();
    String name = Names.ofSql(sqlName);
    try {
      read(namespace, name).filter(this::isOwn)
          .ifPresent(own -> delete(namespace, name, own.path("metadata").path("uid").asText()));
    } catch (Exception another) {
      failure.addSuppressed(another);
    } finally {
      if (isCancelled) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private boolean isOwn(JsonNode object) {
    return object.path("metadata").path("annotations").path(REQUEST).asText().equals(request);
  }

  /**
   * A change of a table's definition.
   *
   * @param before the object without it
   * @param after the object with it
   * @param patch the fields of the spec that it set
   */
  record Changed(JsonNode before, JsonNode after, ObjectNode patch) {}

  /**
   * Changes a table, and undoes the change when it is refused. When another client or the operator writes the table in between,
   * the change is computed again from what they wrote.
   *
   * @param change computes the changed fields of the spec from the present object
   */
  void change(String namespace, String name, Function<JsonNode, ObjectNode> change) {
    Changed changed = send(namespace, name, change, false);
    String refusal = judgement(namespace, name, changed.after(), STORED);
    if (!refusal.isEmpty()) {
      undo(namespace, name, changed);
      throw new ColocationException(refusal).unchecked();
    }
  }

  /** The same, before a commit that replaces all rows. It is also undone when the operator does not judge it in time. */
  Changed replace(String namespace, String name, Function<JsonNode, ObjectNode> change) {
    Changed changed = send(namespace, name, change, true);
    Transaction.orUndo(() -> {
      String refusal = judgement(namespace, name, changed.after(), " was not replaced:");
      if (!refusal.isEmpty()) {
        throw new ColocationException(refusal).unchecked();
      }
    }, () -> undo(namespace, name, changed));
    return changed;
  }

  private Changed send(String namespace, String name, Function<JsonNode, ObjectNode> change, boolean replacesRows) {
    String what = what(namespace, name);
    JsonNode before = JSON.createObjectNode();
    ObjectNode patch = JSON.createObjectNode();
    for (int attempt = 1;; attempt++) {
      JsonNode object = read(namespace, name).orElseThrow(
          () -> new ColocationException(what + " was dropped by someone else").unchecked());
      if (isOwn(object)) {
        return new Changed(before, object, patch);
      }
      patch = change.apply(object);
      before = object;
      if (patch.isEmpty()) {
        return new Changed(object, object, patch);
      }
      ObjectNode body = body(object, patch, replacesRows);
      ObjectNode metadata = (ObjectNode) body.path("metadata");
      metadata.set("resourceVersion", object.path("metadata").path("resourceVersion"));
      ((ObjectNode) metadata.path("annotations")).put(REQUEST, request);
      KubernetesApi.Answer answer = api.send(what, "PATCH", path(namespace, name) + KubernetesApi.KNOWN_FIELDS_ONLY, body);
      if (answer.status() == HttpURLConnection.HTTP_CONFLICT && attempt < MOST_ATTEMPTS) {
        pause(attempt);
        continue;
      }
      return new Changed(before, KubernetesApi.checked(what, answer), patch);
    }
  }

  private static ObjectNode body(JsonNode object, ObjectNode patch, boolean replacesRows) {
    ObjectNode body = JSON.createObjectNode();
    ObjectNode annotations = body.putObject("metadata").putObject("annotations");
    JsonNode manifest = object.path("status").path("snapshot").path("manifest");
    if (replacesRows && patch.has("columns") && manifest.isTextual()) {
      annotations.set(ColocatedTable.REPLACES, manifest);
    }
    body.set("spec", patch);
    return body;
  }

  /** Asks the API server whether it would accept a change by {@link #replace}, without making it. */
  void validate(String namespace, String name, JsonNode object, ObjectNode patch) {
    if (!patch.isEmpty()) {
      String what = what(namespace, name);
      String path = path(namespace, name) + KubernetesApi.KNOWN_FIELDS_ONLY + "&dryRun=All";
      KubernetesApi.checked(what, api.send(what, "PATCH", path, body(object, patch, true)));
    }
  }

  /** Undoes the parts of a change that may be undone, see {@link TableChanges#undo}. */
  void undo(String namespace, String name, Changed changed) {
    for (int attempt = 1;; attempt++) {
      Optional<JsonNode> object = read(namespace, name)
          .filter(found -> found.path("metadata").path("uid").equals(changed.before().path("metadata").path("uid")));
      ObjectNode undo = object.map(now -> TableChanges.undo(changed, now)).orElseGet(JSON::createObjectNode);
      if (undo.isEmpty()) {
        return;
      }
      ObjectNode body = JSON.createObjectNode();
      JsonNode replaced = changed.before().path("metadata").path("annotations").path(ColocatedTable.REPLACES);
      body.putObject("metadata").put("resourceVersion", object.get().path("metadata").path("resourceVersion").asText())
          .putObject("annotations").set(ColocatedTable.REPLACES, replaced.isTextual() ? replaced : body.nullNode());
      body.set("spec", undo);
      KubernetesApi.Answer answer = api.send(what(namespace, name), "PATCH", path(namespace, name), body);
      if (answer.status() != HttpURLConnection.HTTP_CONFLICT || attempt == MOST_ATTEMPTS) {
        KubernetesApi.checked(what(namespace, name), answer);
        return;
      }
      pause(attempt);
    }
  }

  /**
   * Drops a table, whose files stay in the recycle bin for a while. A table that is gone is no error: this request may have
   * dropped it before its first answer was lost. After a lost answer the table is read again.
   *
   * @param uid of the table to drop; another table of that name stays
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

  /** Why the operator refuses the table's present spec; empty when it accepts it. */
  private String judgement(String namespace, String name, JsonNode written, String outcome) {
    long generation = written.path("metadata").path("generation").asLong();
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(acceptSeconds);
    for (int attempt = 1; System.nanoTime() < deadline; attempt++) {
      JsonNode status = read(namespace, name).map(object -> object.path("status")).orElse(JSON.createObjectNode());
      if (status.path("observedGeneration").asLong() >= generation && status.path("accepted").isBoolean()) {
        return ColocatedTable.judgement(status);
      }
      pause(attempt);
    }
    throw new ColocationException(what(namespace, name) + outcome + " the operator has neither accepted nor refused it within "
        + acceptSeconds + " s; see `colocation tables`, or whether the operator runs").unchecked();
  }

  /** Waits after an attempt, from 1: twice as long after each. */
  private static void pause(int attempt) {
    try {
      TimeUnit.MILLISECONDS.sleep(Math.min(LONGEST_PAUSE_MILLISECONDS, FIRST_PAUSE_MILLISECONDS << Math.min(attempt - 1, 10)));
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
