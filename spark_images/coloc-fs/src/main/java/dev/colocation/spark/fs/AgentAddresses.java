package dev.colocation.spark.fs;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.colocation.spark.fs.AgentFailure.AgentRefused;
import dev.colocation.spark.fs.CredentialFile.RenewedFile;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Stream;

/**
 * Current addresses of agents: the group's ConfigMap as a file next to the agents' CA, which the kubelet renews. A session
 * has the addresses of when its query was planned; an agent that was replaced since may have another one.
 */
public final class AgentAddresses {
  static final String FILE_NAME = "agents.json";

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final TypeReference<Map<String, String>> URLS = new TypeReference<>() {};
  private static final Map<Path, AgentAddresses> SHARED = new ConcurrentHashMap<>();

  private final RenewedFile<Map<String, String>> file;

  private AgentAddresses(Path path) {
    file = new RenewedFile<>(path, content -> JSON.readValue(content, URLS));
  }

  public static AgentAddresses shared(Settings settings) {
    return shared(settings.authorityFile());
  }

  /**
   * The agents of a group's nodes, in the order in which to ask them: those of the session, and those that are
   * there now; ready ones first, and of those in any order the ones that did not fail lately.
   */
  public static List<AgentAddress> of(Settings.Group group, Settings settings) {
    AgentAddresses known = AgentAddresses.shared(settings);
    Map<String, String> ready = new TreeMap<>(known.current());
    ready.putAll(group.agents());
    List<AgentAddress> agents = new ArrayList<>();
    ready.forEach((node, url) -> agents.add(new AgentAddress(known, node, url, true)));
    group.others().forEach((node, url) -> {
      if (!ready.containsKey(node)) {
        agents.add(new AgentAddress(known, node, url, false));
      }
    });
    Collections.shuffle(agents, ThreadLocalRandom.current());
    agents.sort(Comparator.comparing((AgentAddress agent) -> !agent.isReady()).thenComparing(AgentAddress::failedLately));
    return agents;
  }

  /** The addresses in the file next to a CA. */
  static AgentAddresses shared(Path authorityFile) {
    return SHARED.computeIfAbsent(authorityFile.resolveSibling(FILE_NAME), AgentAddresses::new);
  }

  /** The file's addresses by node; empty if there is no file, or it cannot be understood. */
  public Map<String, String> current() {
    try {
      return file.get();
    } catch (IOException error) {
      return Map.of();
    }
  }

  /**
   * The agent's addresses: the session's, then the file's if that is another one. Addresses that are not allowed are left out as
   * long as one is allowed.
   */
  List<String> of(String node, String planned) {
    String now = current().getOrDefault(node, planned);
    List<String> allowed = Stream.of(planned, now).distinct().filter(AgentHttp::isAllowed).toList();
    return allowed.isEmpty() ? List.of(planned) : allowed;
  }

  /** One node's agent, at its present address. Not safe to share between threads. */
  public static final class AgentAddress {
    /** A request to the agent at a URL. */
    interface Call<T> {
      T at(String url) throws IOException;
    }

    private final AgentAddresses known;
    private final String node;
    private final String planned;
    private final boolean isReady;
    private final boolean failedLately;
    private int failures;

    /**
     * @param planned the agent's URL when the query was planned
     * @param isReady whether the operator last reported it ready; without an operator no report follows when the agent comes back
     */
    public AgentAddress(AgentAddresses known, String node, String planned, boolean isReady) {
      this.known = known;
      this.node = node;
      this.planned = planned;
      this.isReady = isReady;
      failedLately = RecentFailures.OF_THIS_JVM.failedLately(url());
    }

    public String node() {
      return node;
    }

    /** The address for the next request: one that did not fail recently, else one after the other. */
    String url() {
      List<String> urls = known.of(node, planned);
      return urls.stream()
          .filter(url -> !RecentFailures.OF_THIS_JVM.failedLately(url))
          .findFirst()
          .orElse(urls.get(failures % urls.size()));
    }

    public boolean isReady() {
      return isReady;
    }

    /** Whether it had recently failed when this object was created; a fixed value, since agents are sorted by it. */
    public boolean failedLately() {
      return failedLately;
    }

    /** Sends a request, and remembers for this JVM whether the agent answered there. */
    <T> T call(Call<T> request) throws IOException {
      String url = url();
      try {
        T answer = request.at(url);
        RecentFailures.OF_THIS_JVM.answered(url);
        return answer;
      } catch (InterruptedIOException error) {
        throw error;
      } catch (IOException error) {
        if (mayPass(error)) {
          RecentFailures.OF_THIS_JVM.failed(url);
          failures++;
        }
        throw error;
      }
    }

    /** Whether another attempt at an agent may succeed: it did not answer, or refused for now. */
    static boolean mayPass(IOException error) {
      return !(error instanceof AgentRefused refused) || refused.isTransient();
    }
  }

  /**
   * Agents that did not answer lately. A node that hangs costs a time limit once, not once per file: until some time has
   * passed the other replicas of its buckets are asked first.
   */
  static final class RecentFailures {
    /** The instance of this JVM, shared by all tasks of an executor. */
    static final RecentFailures OF_THIS_JVM = new RecentFailures();

    static final Duration MEMORY = Duration.ofSeconds(30);

    private final Map<String, Long> failedAtNanos = new ConcurrentHashMap<>();

    void failed(String url) {
      failedAtNanos.put(url, System.nanoTime());
    }

    void answered(String url) {
      failedAtNanos.remove(url);
    }

    boolean failedLately(String url) {
      Long failedAt = failedAtNanos.get(url);
      return failedAt != null && System.nanoTime() - failedAt < MEMORY.toNanos();
    }
  }
}
