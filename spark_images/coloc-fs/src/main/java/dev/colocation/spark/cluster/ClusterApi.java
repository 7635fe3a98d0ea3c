package dev.colocation.spark.cluster;

import com.fasterxml.jackson.databind.JsonNode;

/** The API server as changes of tables ask it; small, so that tests can replace it. */
@FunctionalInterface
public interface ClusterApi {
  /**
   * One request, sent once: a repetition could do again what was done although its answer was lost.
   *
   * @param body JSON; null = none
   * @return of status {@link KubernetesApi#NO_ANSWER} when none came
   */
  KubernetesApi.Answer sendOnce(String method, String path, JsonNode body);
}
