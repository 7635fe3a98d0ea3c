package dev.colocation.spark.write;

import dev.colocation.spark.cluster.WriteException.NoAgentAnswers;
import dev.colocation.spark.fs.AgentClient;
import dev.colocation.spark.fs.AgentFailure;
import dev.colocation.spark.write.Destination.AgentAccess;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;

/**
 * A group's agents. Agents restart one after the other when they are upgraded. Reads go on with the next node immediately,
 * and start over with the first one until the retry time is over. Writes wait that long for their node. Safe to share between
 * threads.
 */
final class Agents {
  private static final Duration FIRST_DELAY = Duration.ofMillis(200);
  private static final Duration MAX_DELAY = Duration.ofSeconds(5);
  /** For how long an agent that did not answer within the retry time gets one attempt per request, without waiting. */
  private static final Duration AWAY = Duration.ofSeconds(60);
  /** The time when an agent did not answer, by URL; shared by all tasks of an executor. */
  private static final Map<String, Long> AWAY_SINCE = new ConcurrentHashMap<>();

  private final Map<String, String> urls;
  private final Map<String, AgentClient> clients = new TreeMap<>();
  private final Duration retry;

  /** A request to an agent, tried for {@code retry}. */
  interface Ask<T> {
    T of(AgentClient agent, Duration retry) throws IOException;
  }

  Agents(Map<String, String> urls, AgentAccess access) {
    this.urls = urls;
    Path token = Path.of(access.tokenFile());
    Path authority = Path.of(access.authorityFile());
    urls.forEach((node, url) -> clients.put(node, new AgentClient(node, url, token, authority)));
    retry = Duration.ofSeconds(access.retrySeconds());
  }

  /** Nodes with a ready agent, sorted. */
  Set<String> nodes() {
    return clients.keySet();
  }

  /**
   * The answer of a node's agent. An unavailable agent is waited for, unless it recently did not answer in time.
   *
   * @throws AgentFailure when it refused, or did not answer
   */
  <T> T ask(String node, Ask<T> question) throws IOException {
    String url = urls.get(node);
    Long since = AWAY_SINCE.get(url);
    boolean isAway = since != null && System.nanoTime() - since < AWAY.toNanos();
    try {
      T answer = question.of(clients.get(node), isAway ? Duration.ZERO : retry);
      AWAY_SINCE.remove(url);
      return answer;
    } catch (AgentFailure failure) {
      if (failure.mayPass()) {
        AWAY_SINCE.put(url, System.nanoTime());
      }
      throw failure;
    }
  }

  /**
   * The first good answer of some nodes' agents, which are tried one after the other, and again while one may still answer.
   *
   * @param the requested object, for messages
   * @throws NoAgentAnswers with each node's answer, and how long they were asked
   */
  <T> T firstAnswer(String what, Collection<String> nodes, Ask<T> question) throws IOException {
    long started = System.nanoTime();
    Duration delay = FIRST_DELAY;
    while (true) {
      Map<String, IOException> failures = new LinkedHashMap<>();
      for (String node : nodes) {
        try {
          return question.of(clients.get(node), Duration.ZERO);
        } catch (InterruptedIOException error) {
          throw error;
        } catch (IOException error) {
          failures.put(node, error);
        }
      }
      Duration passed = Duration.ofNanos(System.nanoTime() - started);
      boolean mayPass = failures.values().stream().anyMatch(
          error -> error instanceof AgentFailure failure && failure.mayPass());
      if (!mayPass || passed.plus(delay).compareTo(retry) > 0) {
        String said = failures.entrySet().stream()
            .map(failure -> failure.getKey() + ": " + failure.getValue().getMessage()).collect(Collectors.joining("; "));
        throw new NoAgentAnswers(what + ": no agent gave it; asked for " + passed.toSeconds() + " s: "
            + (said.isEmpty() ? "none, no agent is ready" : said));
      }
      pause(delay);
      delay = delay.multipliedBy(2).compareTo(MAX_DELAY) < 0 ? delay.multipliedBy(2) : MAX_DELAY;
    }
  }

  private static void pause(Duration time) throws InterruptedIOException {
    try {
      Thread.sleep(ThreadLocalRandom.current().nextLong(time.toMillis() / 2, time.toMillis() + 1));
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw (InterruptedIOException) new InterruptedIOException("interrupted while waiting for agents").initCause(error);
    }
  }
}
