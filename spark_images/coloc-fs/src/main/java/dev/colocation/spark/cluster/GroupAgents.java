package dev.colocation.spark.cluster;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.TreeMap;

/** Agents' URLs by node, as the operator writes them into a group's ConfigMap. */
public final class GroupAgents {
  /** Key of the agents that readers and writers may talk to. */
  public static final String READY = "agents.json";
  /** Key of the others, which readers ask last. */
  public static final String NOT_READY = "agents-not-ready.json";
  private static final ObjectMapper JSON = new ObjectMapper();

  private GroupAgents() {}

  /** What is under a key of the ConfigMap's data; none where the key is missing. */
  public static Map<String, String> parse(JsonNode data, String key) throws JsonProcessingException {
    Map<String, String> found = new TreeMap<>();
    JSON.readTree(data.path(key).asText("{}")).properties()
        .forEach(agent -> found.put(agent.getKey(), agent.getValue().asText()));
    return found;
  }
}
