package dev.colocation.spark.fs;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
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
 * Where agents listen by now: the group's ConfigMap as a file beside the agents' CA, which the kubelet renews. A session
 * knows what it was told when its query was planned; an agent that was replaced since may have another address.
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
   * The agents of a group's nodes, in the order in which to ask them: those that the session was told of, and those that are
   * there by now; ready ones first, and of those in any order the ones that did not fail lately.
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

  /** The addresses in the file beside a CA. */
  static AgentAddresses shared(Path authorityFile) {
    return SHARED.computeIfAbsent(authorityFile.resolveSibling(FILE_NAME), AgentAddresses::new);
  }

  /** What the file says, by node; empty where there is none, or it cannot be understood. */
  public Map<String, String> current() {
    try {
      return file.get();
    } catch (IOException error) {
      return Map.of();
    }
  }

  /**
   * The agent's addresses: the one that the session was told, then the file's if that is another one. Those that may not be
   * asked are left out while one may.
   */
  List<String> of(String node, String told) {
    String now = current().getOrDefault(node, told);
    List<String> allowed = Stream.of(told, now).distinct().filter(AgentHttp::isAllowed).toList();
    return allowed.isEmpty() ? List.of(told) : allowed;
  }
}
