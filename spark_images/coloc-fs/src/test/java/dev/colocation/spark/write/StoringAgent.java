package dev.colocation.spark.write;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.fs.ManifestStore;
import dev.colocation.spark.fs.TestTls;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** A node's agent that keeps files in memory, reports which of a manifest's files it holds, and misbehaves as the test sets. */
final class StoringAgent implements AutoCloseable {
  private static final String FILES = "/v1/files/shop/orders-12345678/";

  private final HttpsServer server;
  private final ExecutorService workers = Executors.newCachedThreadPool();
  private final String node;
  /** By path below the table's folder. */
  final Map<String, byte[]> files = new TreeMap<>();
  int requests;
  /** Paths of all files that it was sent. */
  final List<String> sent = new ArrayList<>();
  /** Status of so many answers before the first good one. */
  int failures;
  int failure = 503;
  String retryAfter = "";
  /** Of a release that takes manifests of format 2, and does not read them. */
  boolean isOld;
  /** It reports that it lacks the manifest. */
  boolean lacksManifest;
  /** It compares files with the digests of the manifest. */
  boolean isVerifying;
  /** Status of all PUTs of data; 0 = as it should be. */
  int refusal;

  StoringAgent(TestTls tls, String node) throws IOException {
    this.node = node;
    server = HttpsServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.setHttpsConfigurator(new HttpsConfigurator(tls.server()));
    server.createContext("/", this::handle);
    server.setExecutor(workers);
    server.start();
  }

  String url() {
    return "https://127.0.0.1:" + server.getAddress().getPort();
  }

  boolean holds(DataFile file) {
    return files.containsKey(file.path());
  }

  private synchronized void handle(HttpExchange exchange) throws IOException {
    requests++;
    byte[] body = exchange.getRequestBody().readAllBytes();
    String target = exchange.getRequestURI().getPath();
    if (!node.equals(exchange.getRequestHeaders().getFirst("Colocation-Node"))) {
      answer(exchange, 421, error("WrongNode", "another node"));
    } else if (failures > 0) {
      failures--;
      if (!retryAfter.isEmpty()) {
        exchange.getResponseHeaders().set("Retry-After", retryAfter);
      }
      answer(exchange, failure, error("Starting", "as set"));
    } else if (target.equals("/v1/tables/shop/orders-12345678/verify")) {
      verify(exchange, new ObjectMapper().readTree(body).path("manifest").asText());
    } else if (target.startsWith(FILES)) {
      file(exchange, target.substring(FILES.length()), body);
    } else {
      answer(exchange, 400, error("BadRequest", target));
    }
  }

  private void file(HttpExchange exchange, String path, byte[] body) throws IOException {
    String method = exchange.getRequestMethod();
    if (method.equals("PUT")) {
      put(exchange, path, body);
    } else if (!files.containsKey(path)) {
      answer(exchange, 404, error("NotFound", "not held"));
    } else {
      exchange.getResponseHeaders().set("Content-Digest", digest(files.get(path)));
      answer(exchange, 200, files.get(path));
    }
  }

  private void put(HttpExchange exchange, String path, byte[] body) throws IOException {
    sent.add(path);
    byte[] before = files.get(path);
    if (refusal != 0 && path.startsWith("data/")) {
      answer(exchange, refusal, error("InsufficientStorage", "no room"));
    } else if (!digest(body).equals(exchange.getRequestHeaders().getFirst("Content-Digest"))
        || !String.valueOf(body.length).equals(exchange.getRequestHeaders().getFirst("Content-Length"))) {
      answer(exchange, 422, error("DigestMismatch", "other bytes"));
    } else if (before != null && !java.util.Arrays.equals(before, body)) {
      answer(exchange, 409, error("Conflict", "another content"));
    } else {
      files.put(path, body);
      answer(exchange, before == null ? 201 : 200, error("", ""));
    }
  }

  private void verify(HttpExchange exchange, String manifest) throws IOException {
    byte[] stored = files.get("manifests/" + manifest + ".json.zst");
    if (stored == null || (isOld && ManifestStore.isFramed(stored))) {
      answer(exchange, 404, error("NotFound", "no such manifest"));
      return;
    }
    ObjectNode report = new ObjectMapper().createObjectNode().put("manifestPresent", !lacksManifest);
    ObjectNode buckets = report.putObject("buckets");
    for (DataFile file : StoredManifest.decode(stored, manifest).files()) {
      ObjectNode bucket = buckets.withObject("/" + file.bucket());
      bucket.put("filesWanted", bucket.path("filesWanted").asInt() + 1);
      bucket.put("filesHeld", bucket.path("filesHeld").asInt() + (isWhole(file) ? 1 : 0));
      boolean isComplete = bucket.path("filesHeld").equals(bucket.path("filesWanted"));
      bucket.put("state", isComplete ? "complete" : "partial");
    }
    answer(exchange, 200, report.toString().getBytes(StandardCharsets.UTF_8));
  }

  private boolean isWhole(DataFile file) {
    return holds(file) && (!isVerifying || StoredManifest.sha256(files.get(file.path())).equals(file.sha256()));
  }

  private static String digest(byte[] content) {
    byte[] digest = HexFormat.of().parseHex(StoredManifest.sha256(content));
    return "sha-256=:" + Base64.getEncoder().encodeToString(digest) + ":";
  }

  private static byte[] error(String reason, String message) {
    return ("{\"error\": \"" + reason + "\", \"message\": \"" + message + "\"}").getBytes(StandardCharsets.UTF_8);
  }

  private static void answer(HttpExchange exchange, int status, byte[] body) throws IOException {
    boolean isHead = exchange.getRequestMethod().equals("HEAD");
    exchange.sendResponseHeaders(status, isHead ? -1 : body.length);
    if (!isHead) {
      exchange.getResponseBody().write(body);
    }
    exchange.close();
  }

  @Override
  public void close() {
    server.stop(0);
    workers.shutdownNow();
  }
}
