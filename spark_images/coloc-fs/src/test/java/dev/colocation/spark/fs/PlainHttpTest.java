package dev.colocation.spark.fs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Someone wrote the address of a server of their own, without TLS, into a group's ConfigMap: it never hears of a token. */
final class PlainHttpTest {
  @TempDir Path folder;
  private final List<String> heard = new CopyOnWriteArrayList<>();
  private HttpServer server;
  private String url;
  private TestTls tls;
  private TestTable table;

  @BeforeEach
  void start() throws Exception {
    server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.createContext("/", exchange -> {
      heard.add(exchange.getRequestURI() + " " + exchange.getRequestHeaders().getFirst("Authorization"));
      exchange.sendResponseHeaders(404, -1);
      exchange.close();
    });
    server.start();
    url = "http://127.0.0.1:" + server.getAddress().getPort();
    tls = TestTls.forNodes(folder, "node-1");
    table = new TestTable(folder, tls.authority());
    table.agents.put("node-1", url);
  }

  @AfterEach
  void stop() {
    server.stop(0);
  }

  private void assertNotAsked(Executable request) {
    IOException error = assertThrows(IOException.class, request);
    for (String part : List.of("agent URL '" + url + "' is not allowed; it must be https://", "<group>-spark, agents.json")) {
      assertTrue(error.getMessage().contains(part), error.getMessage());
    }
    assertEquals(List.of(), heard);
  }

  @Test
  void isNotAskedForFilesOrManifests() {
    assertNotAsked(() -> table.open().open(table.location(TestTable.FIRST)).read());
    table.manifest = "d".repeat(64);
    assertNotAsked(() -> table.open().open(table.location(TestTable.FIRST)).read());
  }

  @Test
  void isNotAskedForDamageChecksOrUploads() {
    ColocPath file = ColocPath.parse(table.location(TestTable.FIRST));
    AgentHttp http = AgentHttp.shared(table.tokenFile, tls.authority());
    assertNotAsked(() -> http.checkForDamage("node-1", url, file, Duration.ofSeconds(3)));
    AgentClient client = new AgentClient("node-1", url, table.tokenFile, tls.authority());
    assertNotAsked(() -> client.putBytes(
        new AgentClient.Folder("shop", "orders-12345678"), "data/x", new byte[1], "0".repeat(64), Duration.ofSeconds(3)));
  }

  @Test
  void applicationsOwnAddressIsUsedInstead() throws Exception {
    try (FakeAgent agent = new FakeAgent(tls)) {
      byte[] content = table.contents.get(TestTable.SECOND);
      agent.files.put(TestTable.target(TestTable.SECOND), content);
      Files.writeString(
          tls.authority().resolveSibling(AgentAddresses.FILE_NAME), "{\"node-1\": \"" + agent.url() + "\"}");
      try (var stream = table.open().open(table.location(TestTable.SECOND))) {
        assertArrayEquals(content, stream.readAllBytes());
      }
    }
    assertEquals(List.of(), heard);
  }
}
