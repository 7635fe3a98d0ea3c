package dev.colocation.spark.cluster;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.colocation.spark.fs.Buckets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * A ColocationGroup, with the fields that readers and writers need.
 *
 * @param bucketKey canonical types, in order
 * @param stable empty when the operator has not reported on it yet
 * @param reason empty when there is none
 * @param buckets the map: the nodes of each bucket; index = bucket; empty when there is none yet
 */
public record ColocationGroup(
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

  /** The ConfigMap's key of the agents that are ready. */
  public static final String READY_AGENTS = "agents.json";

  /** The ConfigMap's key of the others, which readers ask last. */
  public static final String OTHER_AGENTS = "agents-not-ready.json";

  private static final ObjectMapper JSON = new ObjectMapper();

  /** One of the first buckets that are not stable; {@code replicas}: node to state. */
  public record UnstableBucket(int bucket, String reason, String message, Map<String, String> replicas) {}

  /**
   * Reads an object of the API server.
   *
   * @throws ColocationException (unchecked) when its spec or status cannot be understood
   */
  public static ColocationGroup parse(JsonNode object) {
    JsonNode metadata = object.path("metadata");
    Names.GroupKey key = new Names.GroupKey(metadata.path("namespace").asText(), metadata.path("name").asText());
    JsonNode spec = object.path("spec");
    JsonNode status = object.path("status");
    require(spec.path("buckets").isInt() && spec.path("bucketKey").isArray(), "InvalidSpec", "the spec", key);
    JsonNode stable = status.path("stable");
    JsonNode map = status.path("backendsPerBucketSeq");
    require(Json.isAbsent(stable) || stable.isBoolean(), "InvalidStatus", "the status", key);
    require(Json.isAbsent(map) || map.isArray(), "InvalidStatus", "the status", key);
    List<List<String>> buckets = new ArrayList<>();
    map.forEach(nodes -> buckets.add(Json.texts(nodes)));
    return new ColocationGroup(
        key,
        Json.texts(spec.path("bucketKey")).stream().map(TypeNames::canonical).toList(),
        spec.path("buckets").asInt(),
        spec.path("replicas").asInt(),
        Json.texts(spec.path("allowedNamespaces")),
        Json.isAbsent(stable) ? Optional.empty() : Optional.of(stable.asBoolean()),
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

  /** Why tables of a namespace may not be in the group, whatever their status; empty when they may. */
  public String refusal(String namespace) {
    if (key.namespace().equals(namespace) || allowedNamespaces.contains("*") || allowedNamespaces.contains(namespace)) {
      return "";
    }
    return "NamespaceNotAllowed: group " + key + " allows namespaces [" + String.join(", ", allowedNamespaces)
        + "], and this is namespace " + namespace + "; add it to allowedNamespaces of the group";
  }

  /** How a table's files differ from the group's schema; empty when they do not. */
  public String inconsistency(TableLayout layout, Buckets buckets) {
    if (buckets.ofGroup() != bucketCount) {
      return "the files have " + buckets.ofGroup() + " buckets, the group has " + bucketCount;
    }
    List<String> key = layout.bucketedBy().stream().map(name -> keyType(layout, name)).toList();
    return key.equals(bucketKey) ? ""
        : "the files are bucketed by (" + String.join(", ", key) + "), the group by (" + String.join(", ", bucketKey) + ")";
  }

  private static String keyType(TableLayout layout, String name) {
    return layout.columns().stream().filter(column -> column.name().equalsIgnoreCase(name)).findFirst()
        .map(column -> TypeNames.canonical(column.type())).orElse("no column " + name);
  }

  /**
   * Agents' URLs by node, as the operator writes them into the group's ConfigMap.
   *
   * @param key {@link #READY_AGENTS} or {@link #OTHER_AGENTS}; no agents where the ConfigMap lacks it
   */
  public static Map<String, String> agents(JsonNode configMapData, String key) throws JsonProcessingException {
    Map<String, String> found = new TreeMap<>();
    JSON.readTree(configMapData.path(key).asText("{}")).properties()
        .forEach(agent -> found.put(agent.getKey(), agent.getValue().asText()));
    return found;
  }

  /** A replica's state: complete, partial, corrupt, missing, down; empty when the status does not report it. */
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
