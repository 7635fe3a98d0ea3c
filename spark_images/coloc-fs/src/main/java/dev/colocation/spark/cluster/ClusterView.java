package dev.colocation.spark.cluster;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.HttpURLConnection;
import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The cluster as one query sees it: the first object is read at its present version, all others at the same version of the API
 * server's store. Not safe to share between threads.
 */
public final class ClusterView {
  private static final int GONE = 410;
  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * A group that places tables, with its agents.
   *
   * @param agents URLs by node of the agents that the operator last reported ready
   * @param others URLs of the other agents
   * @param silence why the operator's report on it is not fresh; empty when it is
   * @param lastSign when the operator last gave a sign of life; until then its report on the group was up to date
   */
  public record PlacingGroup(
      ColocationGroup object,
      Map<String, String> agents,
      Map<String, String> others,
      String silence,
      Optional<Instant> lastSign) {

    /**
     * The group's description for the file system on executors: {@link dev.colocation.spark.fs.Settings.Group} as JSON.
     *
     * @param reference how the table names the group
     */
    public String asSetting(String reference) {
      ObjectNode setting = JSON.createObjectNode().put("name", reference);
      setting.set("agents", JSON.valueToTree(agents));
      setting.set("others", JSON.valueToTree(others));
      setting.set("buckets", JSON.valueToTree(object.buckets()));
      return setting.toString();
    }
  }

  private final KubernetesApi api;
  private final Map<List<Object>, Optional<PlacingGroup>> groups = new HashMap<>();
  private String version = "";

  public ClusterView(KubernetesApi api) {
    this.api = api;
  }

  /** A table; empty when there is none. */
  public Optional<ColocatedTable> table(String namespace, String name) {
    return find("ColocatedTable", KubernetesApi.TABLES, namespace, name).map(ColocatedTable::parse);
  }

  /** A table whose rows are to be replaced: an invalid status counts as none. */
  public Optional<ColocatedTable> replacedTable(String namespace, String name) {
    return find("ColocatedTable", KubernetesApi.TABLES, namespace, name).map(ColocatedTable::parse).map(ColocatedTable::toBeReplaced);
  }

  /** The group that places a namespace's tables; empty while the group, or its ConfigMap there, is missing. */
  public Optional<PlacingGroup> group(String namespace, Names.GroupKey key) {
    Optional<PlacingGroup> known = groups.get(List.of(namespace, key));
    if (known == null) {
      known = find("ColocationGroup", KubernetesApi.GROUPS, key.namespace(), key.name())
          .flatMap(object -> withAgents(namespace, key, object));
      groups.put(List.of(namespace, key), known);
    }
    return known;
  }

  private Optional<PlacingGroup> withAgents(String namespace, Names.GroupKey key, JsonNode object) {
    String name = key.configMapIn(namespace);
    return api.get("ConfigMap " + namespace + "/" + name, "/api/v1/namespaces/" + namespace + "/configmaps/" + name)
        .map(configMap -> configMap.path("data"))
        .map(data -> new PlacingGroup(
            ColocationGroup.parse(object),
            agents(data, ColocationGroup.READY_AGENTS),
            agents(data, ColocationGroup.OTHER_AGENTS),
            api.signOfLife().silence(data),
            api.signOfLife().lastSign(data)));
  }

  private static Map<String, String> agents(JsonNode data, String key) {
    try {
      return ColocationGroup.agents(data, key);
    } catch (JsonProcessingException error) {
      throw new ColocationException(key + " of the group's ConfigMap cannot be read: " + error.getMessage(), error)
          .unchecked();
    }
  }

  /** Reads a list of one object, since only lists can be read at a given version. */
  private Optional<JsonNode> find(String kind, String plural, String namespace, String name) {
    if (!Names.isObject(namespace) || !Names.isObject(name)) {
      return Optional.empty();
    }
    String what = kind + " " + namespace + "/" + name;
    String path = KubernetesApi.collection(namespace, plural) + "?fieldSelector=metadata.name%3D" + name;
    KubernetesApi.Answer answer = api.send(what, "GET", path + atThisVersion(), null);
    if (answer.status() == GONE) {
      // The API server no longer has that version: the query goes on with the present one.
      version = "";
      answer = api.send(what, "GET", path, null);
    }
    JsonNode list = KubernetesApi.checked(what, answer);
    if (version.isEmpty()) {
      version = list.path("metadata").path("resourceVersion").asText();
    }
    return Optional.ofNullable(list.path("items").get(0));
  }

  private String atThisVersion() {
    return version.isEmpty() ? "" : "&resourceVersionMatch=Exact&resourceVersion=" + version;
  }

  // Lists, which are read as they are now

  /** Names of a namespace's tables in SQL, sorted. */
  public List<String> tables(String namespace) {
    return api.metadata("tables of namespace " + namespace, KubernetesApi.collection(namespace, KubernetesApi.TABLES))
        .orElseThrow(() -> new ColocationException("tables of namespace " + namespace + KubernetesApi.FORBIDDEN).unchecked())
        .stream().map(ColocatedTable::sqlName).sorted().toList();
  }

  /**
   * Namespaces that have tables, sorted.
   *
   * @param fallback the answer for an account that may not list all namespaces
   */
  public List<String> namespaces(String[] fallback) {
    return api.metadata("tables of all namespaces", KubernetesApi.OWN_API + "/" + KubernetesApi.TABLES)
        .map(found -> found.stream().map(metadata -> metadata.path("namespace").asText()).distinct().sorted().toList())
        .orElseGet(() -> Arrays.stream(fallback).map(Names::ofSql).toList());
  }

  /**
   * Whether the cluster has a namespace; an account that may not ask is believed when it may list tables there. Every cluster has
   * {@code default}, which clients such as dbt's begin with.
   */
  public boolean hasNamespace(String namespace) {
    if (!Names.isObject(namespace)) {
      return false;
    }
    String what = "namespace " + namespace;
    KubernetesApi.Answer answer = api.send(what, "GET", "/api/v1/namespaces/" + namespace, null);
    if (answer.status() == HttpURLConnection.HTTP_FORBIDDEN) {
      String tables = KubernetesApi.collection(namespace, KubernetesApi.TABLES) + "?limit=1";
      return namespace.equals("default") || api.send(what, "GET", tables, null).isSuccess();
    }
    return Optional.of(answer).filter(found -> found.status() != HttpURLConnection.HTTP_NOT_FOUND)
        .map(found -> KubernetesApi.checked(what, found)).isPresent();
  }
}
