package dev.colocation.spark.cluster;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * A ColocationGroup as it was read, as far as readers need it.
 *
 * @param bucketKey canonical types, in order
 * @param stable empty when the operator has not reported on it yet
 * @param reason empty when there is none
 * @param buckets the map: the nodes of each bucket; index = bucket; empty when there is none yet
 */
public record GroupObject(
    Names.GroupKey key,
    List<String> bucketKey,
    int bucketCount,
    int replicas,
    List<String> allowedNamespaces,
    Optional<Boolean> stable,
    String reason,
    List<UnstableBucket> unstableBuckets,
    int unstableBucketCount,
    List<List<String>> buckets) {

  /** One of the first buckets that are not stable; {@code replicas}: node to state. */
  public record UnstableBucket(int bucket, String reason, String message, Map<String, String> replicas) {}

  /**
   * Reads an object of the API server.
   *
   * @throws ColocationException (unchecked) when its spec or status cannot be understood
   */
  public static GroupObject parse(JsonNode object) {
    JsonNode metadata = object.path("metadata");
    Names.GroupKey key = new Names.GroupKey(metadata.path("namespace").asText(), metadata.path("name").asText());
    JsonNode spec = object.path("spec");
    JsonNode status = object.path("status");
    require(spec.path("buckets").isInt() && spec.path("bucketKey").isArray(), "InvalidSpec", "the spec", key);
    JsonNode stable = status.path("stable");
    JsonNode map = status.path("backendsPerBucketSeq");
    require(isAbsent(stable) || stable.isBoolean(), "InvalidStatus", "the status", key);
    require(isAbsent(map) || map.isArray(), "InvalidStatus", "the status", key);
    List<List<String>> buckets = new ArrayList<>();
    map.forEach(nodes -> buckets.add(texts(nodes)));
    return new GroupObject(
        key,
        texts(spec.path("bucketKey")).stream().map(TypeNames::canonical).toList(),
        spec.path("buckets").asInt(),
        spec.path("replicas").asInt(),
        texts(spec.path("allowedNamespaces")),
        isAbsent(stable) ? Optional.empty() : Optional.of(stable.asBoolean()),
        status.path("reason").asText(""),
        unstable(status.path("unstableBuckets")),
        status.path("unstableBucketCount").asInt(),
        List.copyOf(buckets));
  }

  private static void require(boolean isTrue, String reason, String part, Names.GroupKey key) {
    if (!isTrue) {
      throw new ColocationException(reason + ": " + part + " of group " + key + " cannot be understood; correct it")
          .unchecked();
    }
  }

  public static boolean isAbsent(JsonNode node) {
    return node.isMissingNode() || node.isNull();
  }

  public static List<String> texts(JsonNode array) {
    List<String> found = new ArrayList<>();
    array.forEach(item -> found.add(item.asText()));
    return List.copyOf(found);
  }

  private static List<UnstableBucket> unstable(JsonNode array) {
    List<UnstableBucket> found = new ArrayList<>();
    for (JsonNode item : array) {
      Map<String, String> replicas = new TreeMap<>();
      item.path("replicas").properties().forEach(one -> replicas.put(one.getKey(), one.getValue().asText()));
      found.add(new UnstableBucket(
          item.path("bucket").asInt(), item.path("reason").asText(), item.path("message").asText(), replicas));
    }
    return List.copyOf(found);
  }

  /** Why tables of a namespace may not be in it, whatever their status says; empty when they may. */
  public String refusal(String namespace) {
    if (key.namespace().equals(namespace) || allowedNamespaces.contains("*") || allowedNamespaces.contains(namespace)) {
      return "";
    }
    return "NamespaceNotAllowed: group " + key + " allows namespaces [" + String.join(", ", allowedNamespaces)
        + "], and this is namespace " + namespace + "; add it to allowedNamespaces of the group";
  }

  /** What is known of a replica: complete, partial, corrupt, missing, down; empty when the status does not say it. */
  public Optional<String> state(int bucket, String node) {
    for (UnstableBucket unstable : unstableBuckets) {
      if (unstable.bucket() == bucket) {
        return Optional.ofNullable(unstable.replicas().get(node));
      }
    }
    boolean allAreListed = unstableBucketCount <= unstableBuckets.size();
    return stable.isPresent() && (stable.get() || allAreListed) ? Optional.of("complete") : Optional.empty();
  }
}
