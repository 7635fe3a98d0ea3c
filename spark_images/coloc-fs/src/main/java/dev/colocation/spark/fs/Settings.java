package dev.colocation.spark.fs;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;

/**
 * The {@code fs.coloc.*} configuration. Spark sends the session's values with each plan, so executors have the driver's
 * settings without asking. Sessions cannot name the files of credentials: see {@link CredentialFile}.
 */
public final class Settings {
  /** The class of {@code fs.coloc.impl}. */
  public static final String FILE_SYSTEM_CLASS = "dev.colocation.spark.ColocFileSystem";
  public static final String DATA_ROOT = "fs.coloc.data.root";
  public static final String TOKEN_FILE = "fs.coloc.token.file";
  public static final String AUTHORITY_FILE = "fs.coloc.ca.file";
  static final String MANIFEST_DIRECTORY = "fs.coloc.manifest.directory";
  static final String REQUEST_TIMEOUT = "fs.coloc.request.timeout.seconds";
  public static final String DEFAULT_TOKEN_FILE = "/var/run/secrets/colocation.dev/token";
  public static final String DEFAULT_AUTHORITY_FILE = "/var/run/secrets/colocation.dev/ca.crt";
  public static final String READ_DEADLINE = "fs.coloc.read.deadline.seconds";
  static final String NODE = "fs.coloc.node";
  public static final String TABLE_PREFIX = "fs.coloc.table.";
  public static final String GROUP_PREFIX = "fs.coloc.group.";

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int MAX_CACHED_GROUPS = 256;
  private static final Map<String, Group> PARSED = new ConcurrentHashMap<>();

  private final Configuration configuration;

  public Settings(Configuration configuration) {
    this.configuration = configuration;
  }

  /**
   * A group as it was when the query was planned.
   *
   * @param agents URLs of ready agents by node
   * @param others URLs of the others, which may have become ready since
   * @param buckets the nodes of each bucket; index = bucket
   * @param turns for each of these nodes, how many earlier buckets it has; index = bucket
   */
  public record Group(
      String name, Map<String, String> agents, Map<String, String> others, List<List<String>> buckets, List<int[]> turns) {
    static final Group UNKNOWN = new Group("", Map.of(), Map.of(), List.of());

    @JsonCreator
    Group(
        @JsonProperty("name") String name,
        @JsonProperty("agents") Map<String, String> agents,
        @JsonProperty("others") Map<String, String> others,
        @JsonProperty("buckets") List<List<String>> buckets) {
      this(name, agents, others == null ? Map.of() : others, buckets, turns(buckets));
    }

    public List<String> nodesOf(int bucket) {
      return bucket < buckets.size() ? buckets.get(bucket) : List.of();
    }

    int[] turnsOf(int bucket) {
      return bucket < turns.size() ? turns.get(bucket) : new int[0];
    }

    private static List<int[]> turns(List<List<String>> buckets) {
      Map<String, Integer> seen = new HashMap<>();
      return buckets.stream()
          .map(nodes -> nodes.stream().mapToInt(node -> seen.merge(node, 1, Integer::sum) - 1).toArray())
          .toList();
    }
  }

  public Path dataRoot() {
    return Path.of(configuration.getTrimmed(DATA_ROOT, "/var/lib/colocation"));
  }

  Path tokenFile() {
    return CredentialFile.TOKEN.in(configuration);
  }

  Path authorityFile() {
    return CredentialFile.AUTHORITY.in(configuration);
  }

  /** The node of this JVM; empty if it is not configured, as on drivers. */
  public String node() {
    String ofThisPod = System.getenv(SuspectedCopies.NODE_VARIABLE);
    return configuration.getTrimmed(NODE, ofThisPod == null ? "" : ofThisPod);
  }

  /** Where the driver's Python side put the manifests; absent on executors. */
  Optional<Path> manifestDirectory() {
    return Optional.ofNullable(configuration.getTrimmed(MANIFEST_DIRECTORY)).map(Path::of);
  }

  /** For one request, at most {@link AgentHttp#MAX_REQUEST_BYTES} long. */
  public Duration requestTimeout() {
    return Duration.ofSeconds(configuration.getInt(REQUEST_TIMEOUT, 30));
  }

  /** How long a read tries one replica after the other, from its first failure. */
  public Duration readDeadline() {
    return Duration.ofSeconds(configuration.getInt(READ_DEADLINE, 90));
  }

  /**
   * The group of a table; {@link Group#UNKNOWN} if it is not configured.
   *
   * @throws IOException when the configured value is not what the catalog writes
   */
  public Group groupOf(String namespace, String directory) throws IOException {
    String name = configuration.getRaw(TABLE_PREFIX + namespace + "." + directory);
    String text = name == null ? null : configuration.getRaw(GROUP_PREFIX + namespace + "." + name);
    if (text == null) {
      return Group.UNKNOWN;
    }
    Group parsed = PARSED.get(text);
    if (parsed != null) {
      return parsed;
    }
    try {
      parsed = JSON.readValue(text, Group.class);
    } catch (JsonProcessingException error) {
      throw new IOException(GROUP_PREFIX + namespace + "." + name + " is not a group: " + error.getMessage(), error);
    }
    if (PARSED.size() >= MAX_CACHED_GROUPS) {
      PARSED.clear();
    }
    PARSED.put(text, parsed);
    return parsed;
  }
}
