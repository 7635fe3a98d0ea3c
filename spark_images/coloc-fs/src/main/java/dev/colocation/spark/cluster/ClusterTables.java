package dev.colocation.spark.cluster;

import java.net.HttpURLConnection;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/** Which namespaces and tables there are. */
public final class ClusterTables {
  private final KubernetesApi api;

  public ClusterTables(KubernetesApi api) {
    this.api = api;
  }

  /** Names of a namespace's tables in SQL, sorted. */
  public List<String> tables(String namespace) {
    return api.metadata("tables of namespace " + namespace, KubernetesApi.collection(namespace, KubernetesApi.TABLES))
        .orElseThrow(() -> KubernetesApi.forbidden("tables of namespace " + namespace))
        .stream().map(TableObject::sqlName).sorted().toList();
  }

  /**
   * Namespaces that have tables, sorted.
   *
   * @param fallback for an account that may not look into all namespaces
   */
  public List<String> namespaces(String[] fallback) {
    return api.metadata("tables of all namespaces", KubernetesApi.OWN_API + "/" + KubernetesApi.TABLES)
        .map(found -> found.stream().map(metadata -> metadata.path("namespace").asText()).distinct().sorted().toList())
        .orElseGet(() -> Arrays.stream(fallback).map(Names::ofSql).toList());
  }

  /** Whether the cluster has a namespace; an account that may not ask is believed when it may list tables there. */
  public boolean hasNamespace(String namespace) {
    if (!Names.isObject(namespace)) {
      return false;
    }
    String what = "namespace " + namespace;
    KubernetesApi.Answer answer = api.send(what, "GET", "/api/v1/namespaces/" + namespace, null);
    if (answer.status() == HttpURLConnection.HTTP_FORBIDDEN) {
      String tables = KubernetesApi.collection(namespace, KubernetesApi.TABLES) + "?limit=1";
      return api.send(what, "GET", tables, null).isSuccess();
    }
    return Optional.of(answer).filter(found -> found.status() != HttpURLConnection.HTTP_NOT_FOUND)
        .map(found -> KubernetesApi.checked(what, found)).isPresent();
  }
}
