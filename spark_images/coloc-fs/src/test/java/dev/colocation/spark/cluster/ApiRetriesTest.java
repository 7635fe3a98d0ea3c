package dev.colocation.spark.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** An API server that is away is waited for, and one that has just begun is not believed when it refuses. */
final class ApiRetriesTest {
  private static final int OK = 200;
  private static final int UNAUTHORIZED = 401;
  private static final int FORBIDDEN = 403;
  private static final int NOT_READY = 500;

  private final FakeTimer timer = new FakeTimer();
  private final Deque<String> asked = new ArrayDeque<>();

  /** Answers of these statuses, one after the other, the last one for ever. */
  private Supplier<KubernetesApi.Answer> server(String name, int... statuses) {
    int[] next = {0};
    return () -> {
      asked.add(name);
      int status = statuses[Math.min(next[0]++, statuses.length - 1)];
      return new KubernetesApi.Answer(status, JsonNodeFactory.instance.objectNode(), Optional.empty());
    };
  }

  @ParameterizedTest
  @ValueSource(ints = {KubernetesApi.NO_ANSWER, 408, 429, 500, 503})
  void transientAnswersAreRetried(int away) {
    assertEquals(OK, ApiRetries.read(server("list", away, away, away, OK), timer).status());
    assertTrue(timer.nanos() < Duration.ofSeconds(5).toNanos());
  }

  @ParameterizedTest
  @ValueSource(ints = {400, UNAUTHORIZED, FORBIDDEN, 404, 409, 410, 422})
  void finalAnswersAreReturnedImmediately(int status) {
    assertEquals(status, ApiRetries.read(server("list", status), timer).status());
    assertEquals(0, timer.nanos());
  }

  @Test
  void lastAnswerIsReturnedAtTheDeadline() {
    assertEquals(503, ApiRetries.read(server("list", KubernetesApi.NO_ANSWER, 503), timer).status());
    assertTrue(timer.nanos() >= ApiRetries.LONGEST.toNanos() && timer.nanos() < ApiRetries.LONGEST.plusSeconds(2).toNanos());
  }

  @Test
  void cancelledQueryStopsWaiting() {
    timer.isCancelled = true;
    assertEquals(503, ApiRetries.read(server("list", 503, OK), timer).status());
    assertEquals(List.of("list"), List.copyOf(asked));
  }

  @ParameterizedTest
  @ValueSource(ints = {UNAUTHORIZED, FORBIDDEN})
  void refusalBeforeReadinessIsRetried(int refused) {
    Supplier<KubernetesApi.Answer> confirmed = confirming(
        server("list", refused, refused, OK), server("readyz", NOT_READY, OK));
    assertEquals(OK, ApiRetries.read(confirmed, timer).status());
    assertEquals(List.of("list", "readyz", "list", "readyz", "list"), List.copyOf(asked));
  }

  @ParameterizedTest
  @ValueSource(ints = {UNAUTHORIZED, FORBIDDEN})
  void refusalOfAReadyServerIsFinal(int refused) {
    Supplier<KubernetesApi.Answer> confirmed = confirming(server("list", refused), server("readyz", OK));
    assertEquals(refused, ApiRetries.read(confirmed, timer).status());
    assertEquals(List.of("list", "readyz", "list"), List.copyOf(asked));
  }

  @ParameterizedTest
  @ValueSource(ints = {UNAUTHORIZED, FORBIDDEN})
  void refusedReadinessIsRetried(int refused) {
    Supplier<KubernetesApi.Answer> confirmed = confirming(
        server("list", refused, refused, OK), server("readyz", refused));
    assertEquals(OK, ApiRetries.read(confirmed, timer).status());
    assertEquals(List.of("list", "readyz", "list", "readyz", "list"), List.copyOf(asked));
  }

  @ParameterizedTest
  @ValueSource(ints = {UNAUTHORIZED, FORBIDDEN})
  void refusedReadinessIsFinalAfterAWhile(int refused) {
    Supplier<KubernetesApi.Answer> confirmed = confirming(server("list", refused), server("readyz", refused));
    assertEquals(refused, ApiRetries.read(confirmed, timer).status());
    assertTrue(timer.nanos() >= Duration.ofSeconds(5).toNanos() && timer.nanos() < Duration.ofSeconds(6).toNanos());
  }

  @Test
  void goodAnswersNeedNoReadinessCheck() {
    assertEquals(OK, ApiRetries.confirmed(server("list", OK), server("readyz", OK), timer).status());
    assertEquals(List.of("list"), List.copyOf(asked));
  }

  private Supplier<KubernetesApi.Answer> confirming(
      Supplier<KubernetesApi.Answer> server, Supplier<KubernetesApi.Answer> readiness) {
    return () -> ApiRetries.confirmed(server, readiness, timer);
  }
}
