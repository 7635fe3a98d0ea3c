package dev.colocation.spark.write;

import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.Settings;
import java.io.Serializable;
import java.util.List;
import java.util.Map;

/**
 * The nodes and agents for new files of a table, as plain values, since it is sent to the executors.
 *
 * @param directory the table's folder in the namespace's
 * @param buckets the group's map: the nodes of each bucket; index = bucket
 * @param ofTable the number of buckets that files are made for
 * @param agents URLs of ready agents by node
 */
public record Destination(
    String namespace, String directory, List<List<String>> buckets, int ofTable, Map<String, String> agents, AgentAccess access)
    implements Serializable {

  public Destination {
    buckets = buckets.stream().map(List::copyOf).toList();
    agents = Map.copyOf(agents);
  }

  /** The buckets that files are made for. */
  public Buckets madeFor() {
    return new Buckets(buckets.size(), ofTable);
  }

  /** The same place for files of another number of buckets. */
  Destination of(int otherBuckets) {
    return new Destination(namespace, directory, buckets, otherBuckets, agents, access);
  }

  /**
   * Credentials and patience for requests to agents. Drivers and executors have the files in the same places.
   *
   * @param tokenFile the ServiceAccount token for agents
   * @param authorityFile the agents' CA, PEM
   * @param retrySeconds how long an unavailable agent is retried; 0 = once
   */
  public record AgentAccess(String tokenFile, String authorityFile, int retrySeconds) implements Serializable {
    /** Enough to replace an agent's pod: pull its image and do its first scan. */
    private static final String DEFAULT_RETRY_SECONDS = "90";

    /** Reads the {@code fs.coloc.*} options of a table; see {@link Settings}. */
    public static AgentAccess of(Map<String, String> fileSystem) {
      return new AgentAccess(
          fileSystem.getOrDefault(Settings.TOKEN_FILE, Settings.DEFAULT_TOKEN_FILE),
          fileSystem.getOrDefault(Settings.AUTHORITY_FILE, Settings.DEFAULT_AUTHORITY_FILE),
          Integer.parseInt(fileSystem.getOrDefault(Settings.READ_DEADLINE, DEFAULT_RETRY_SECONDS).trim()));
    }
  }
}
