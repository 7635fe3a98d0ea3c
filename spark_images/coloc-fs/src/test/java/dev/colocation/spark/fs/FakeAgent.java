package dev.colocation.spark.fs;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsExchange;
import com.sun.net.httpserver.HttpsServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.net.ssl.ExtendedSSLSession;
import javax.net.ssl.SNIHostName;

/** An agent that serves files from memory over TLS, and misbehaves as the test sets. */
final class FakeAgent implements AutoCloseable {
  private final HttpsServer server;
  final Map<String, byte[]> files = new HashMap<>();
  final List<String> ranges = new ArrayList<>();
  final Set<Integer> clientPorts = new HashSet<>();
  /** Path and body of each request to look at a file. */
  final List<String> checks = new ArrayList<>();
  boolean isDamaged;
  int answerToChecks = 200;
  /** The names that clients asked for (SNI). */
  final Set<String> askedNames = new HashSet<>();
  /** How many requests came, whatever the answer. */
  int requests;
  String token = "reader";
  /** The node that it claims to be; empty = any. */
  String node = "";
  /** Every answer ends after so many bytes, though more were announced. */
  int cutAfterBytes = Integer.MAX_VALUE;
  /** So many requests are answered with 503 first. */
  int unavailableTimes;

  FakeAgent(TestTls tls) throws IOException {
    server = HttpsServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.setHttpsConfigurator(new HttpsConfigurator(tls.server()));
    server.createContext("/v1/files/", this::handle);
    server.createContext("/v1/tables/", this::check);
    server.start();
  }

  String url() {
    return "https://127.0.0.1:" + server.getAddress().getPort();
  }

  /** Looks at a reported file; a damaged one is no longer served. */
  private synchronized void check(HttpExchange exchange) throws IOException {
    String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
    checks.add(exchange.getRequestURI().getRawPath() + " " + body);
    if (answerToChecks != 200) {
      answer(exchange, answerToChecks, "Busy".getBytes(StandardCharsets.UTF_8));
      return;
    }
    if (isDamaged) {
      files.clear();
    }
    answer(exchange, 200, ("{\"path\": \"\", \"damaged\": " + isDamaged + "}").getBytes(StandardCharsets.UTF_8));
  }

  private synchronized void handle(HttpExchange exchange) throws IOException {
    requests++;
    noteName(exchange);
    clientPorts.add(exchange.getRemoteAddress().getPort());
    String path = exchange.getRequestURI().getRawPath().substring("/v1/files/".length());
    byte[] content = files.get(path);
    if (!("Bearer " + token).equals(exchange.getRequestHeaders().getFirst("Authorization"))) {
      answer(exchange, 401, "Unauthorized".getBytes(StandardCharsets.UTF_8));
    } else if (!node.isEmpty() && !node.equals(exchange.getRequestHeaders().getFirst("Colocation-Node"))) {
      answer(exchange, 421, "another node".getBytes(StandardCharsets.UTF_8));
    } else if (unavailableTimes > 0) {
      unavailableTimes--;
      answer(exchange, 503, "starting".getBytes(StandardCharsets.UTF_8));
    } else if (content == null) {
      answer(exchange, 404, "not held".getBytes(StandardCharsets.UTF_8));
    } else {
      String range = exchange.getRequestHeaders().getFirst("Range");
      ranges.add(range);
      String[] bounds = range == null ? null : range.substring("bytes=".length()).split("-");
      answer(exchange, range == null ? 200 : 206, range == null ? content : Arrays.copyOfRange(
          content, Integer.parseInt(bounds[0]), Math.min(content.length, Integer.parseInt(bounds[1]) + 1)));
    }
  }

  private void noteName(HttpExchange exchange) {
    ExtendedSSLSession session = (ExtendedSSLSession) ((HttpsExchange) exchange).getSSLSession();
    session.getRequestedServerNames().forEach(name -> askedNames.add(((SNIHostName) name).getAsciiName()));
  }

  private void answer(HttpExchange exchange, int status, byte[] body) throws IOException {
    exchange.sendResponseHeaders(status, body.length);
    boolean cut = status == 206 && body.length > cutAfterBytes;
    exchange.getResponseBody().write(body, 0, cut ? cutAfterBytes : body.length);
    if (cut) {
      exchange.getResponseBody().flush();
      throw new IOException("cut off, as set");
    }
    exchange.close();
  }

  @Override
  public void close() {
    server.stop(0);
  }
}
