package dev.colocation.spark.cluster;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.net.HttpURLConnection;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;

/**
 * Decides which answers of an API server that is unavailable, or has just started, are worth another attempt. Its restart or its
 * upgrade takes seconds, and a query that has not begun loses nothing by waiting.
 */
public final class ApiRetries {
  static final Duration LONGEST = Duration.ofSeconds(25);

  private static final Duration FIRST_PAUSE = Duration.ofMillis(250);
  private static final Duration LONGEST_PAUSE = Duration.ofSeconds(2);
  /** How long a server that refuses {@code /readyz} counts as one that has not read the roles yet. */
  private static final Duration READING_ROLES = Duration.ofSeconds(5);
  private static final int FIRST_SERVER_ERROR = 500;
  private static final int TOO_MANY_REQUESTS = 429;
  private static final Set<Integer> TRANSIENT =
      Set.of(KubernetesApi.NO_ANSWER, HttpURLConnection.HTTP_CLIENT_TIMEOUT, TOO_MANY_REQUESTS);

  private static final KubernetesApi.Answer NOT_READY = new KubernetesApi.Answer(
      HttpURLConnection.HTTP_UNAVAILABLE,
      JsonNodeFactory.instance.objectNode().put("message", "it refused the request, and is not ready: it has just begun"),
      Optional.empty());

  private ApiRetries() {}

  /** The first answer that does not pass by itself, or the last one when the time is over or the query was cancelled. */
  static KubernetesApi.Answer read(Supplier<KubernetesApi.Answer> ask, Timer timer) {
    long deadline = timer.nanos() + LONGEST.toNanos();
    Duration pause = FIRST_PAUSE;
    while (true) {
      KubernetesApi.Answer answer = ask.get();
      if (!isTransient(answer) || Thread.currentThread().isInterrupted() || timer.nanos() >= deadline || !timer.sleep(pause)) {
        return answer;
      }
      Duration twice = pause.multipliedBy(2);
      pause = twice.compareTo(LONGEST_PAUSE) < 0 ? twice : LONGEST_PAUSE;
    }
  }

  /**
   * An answer whose refusal (401, 403) is reliable. An API server that has just started has read neither roles nor the pods
   * of tokens yet, and refuses what is allowed: so a refusal counts only when the server had reported ready before the request.
   * Until it has read the role for {@code /readyz}, it refuses that, too; a server that keeps refusing it is believed.
   *
   * @param ask may be repeated after a refusal, since nothing was done then
   * @param readiness the answer of {@code /readyz}
   */
  static KubernetesApi.Answer confirmed(
      Supplier<KubernetesApi.Answer> ask, Supplier<KubernetesApi.Answer> readiness, Timer timer) {
    long deadline = timer.nanos() + READING_ROLES.toNanos();
    while (true) {
      KubernetesApi.Answer answer = ask.get();
      if (!isRefusal(answer)) {
        return answer;
      }
      KubernetesApi.Answer ready = readiness.get();
      if (isTransient(ready)) {
        return NOT_READY;
      }
      if (!isRefusal(ready)) {
        return ask.get();
      }
      if (timer.nanos() >= deadline || !timer.sleep(FIRST_PAUSE)) {
        return answer;
      }
    }
  }

  private static boolean isRefusal(KubernetesApi.Answer answer) {
    return answer.status() == HttpURLConnection.HTTP_FORBIDDEN || answer.status() == HttpURLConnection.HTTP_UNAUTHORIZED;
  }

  /** Whether the same request may be answered otherwise in a while: no answer, too many requests, a server's error. */
  static boolean isTransient(KubernetesApi.Answer answer) {
    return TRANSIENT.contains(answer.status()) || answer.status() >= FIRST_SERVER_ERROR;
  }
}
