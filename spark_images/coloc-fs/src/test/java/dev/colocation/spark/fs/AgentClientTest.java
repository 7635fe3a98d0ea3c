package dev.colocation.spark.fs;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** An agent that looks at its files for long before it answers. Mostly waits, so other tests run concurrently. */
@Execution(ExecutionMode.CONCURRENT)
class AgentClientTest {
  private static final AgentClient.Folder ORDERS = new AgentClient.Folder("shop", "orders-12345678");
  private static final Duration LIMIT = Duration.ofSeconds(120);

  private final ExecutorService workers = Executors.newCachedThreadPool();
  private final CountDownLatch questions = new CountDownLatch(2);
  private HttpsServer server;
  private TestTls tls;
  private Path token;
  private boolean isSilent;

  @BeforeEach
  void start(@TempDir Path folder) throws Exception {
    tls = TestTls.forNodes(folder, "node-1");
    token = Files.writeString(folder.resolve("token"), "writer\n");
    server = HttpsServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.setHttpsConfigurator(new HttpsConfigurator(tls.server()));
    server.createContext("/", this::handle);
    server.setExecutor(workers);
    server.start();
  }

  @AfterEach
  void stop() {
    workers.shutdownNow();
    server.stop(0);
  }

  /** @param stillSeconds how long the agent may be silent */
  private JsonNode verify(int stillSeconds) throws IOException {
    String url = "https://127.0.0.1:" + server.getAddress().getPort();
    AgentClient client = new AgentClient("node-1", url, token, tls.authority(), Duration.ofSeconds(stillSeconds));
    return client.verify(ORDERS, "0".repeat(64), Duration.ZERO);
  }

  /** The report is ready when two other questions were answered. */
  private void handle(HttpExchange exchange) throws IOException {
    boolean isOtherQuestion = exchange.getRequestMethod().equals("HEAD");
    if (isOtherQuestion && !isSilent) {
      questions.countDown();
      exchange.sendResponseHeaders(404, -1);
      return;
    }
    try {
      questions.await();
    } catch (InterruptedException error) {
      return;
    }
    byte[] report = "{\"manifestPresent\": true}".getBytes(java.nio.charset.StandardCharsets.UTF_8);
    exchange.sendResponseHeaders(200, report.length);
    exchange.getResponseBody().write(report);
    exchange.close();
  }

  @Test
  void workingAgentIsWaitedFor() {
    assertTimeoutPreemptively(LIMIT, () -> assertTrue(verify(10).path("manifestPresent").asBoolean()));
  }

  @Test
  void silentAgentIsGivenUp() {
    isSilent = true;
    assertTimeoutPreemptively(LIMIT, () -> {
      AgentFailure failure = assertThrows(AgentFailure.class, () -> verify(2));
      assertTrue(failure.getMessage().startsWith("Unreachable: POST "), failure.getMessage());
    });
  }
}
