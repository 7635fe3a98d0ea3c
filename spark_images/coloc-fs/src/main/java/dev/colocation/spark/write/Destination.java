package dev.colocation.spark.write;

import java.io.Serializable;
import java.util.List;
import java.util.Map;

/**
 * Where new files of a table go; plain values, since it travels to the executors.
 *
 * @param directory the table's folder below the namespace's
 * @param buckets the group's map: the nodes of each bucket; index = bucket
 * @param agents URLs of ready agents by node
 */
public record Destination(
    String namespace, String directory, List<List<String>> buckets, Map<String, String> agents, AgentAccess access)
    implements Serializable {

  public Destination {
    buckets = buckets.stream().map(List::copyOf).toList();
    agents = Map.copyOf(agents);
  }
}
