package dev.colocation.spark.fs;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.colocation.spark.fs.AgentFailure.AgentRefused;
import dev.colocation.spark.fs.CredentialFile.RenewedFile;
import dev.colocation.spark.fs.Transfer.RangeTarget;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse.BodySubscribers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import javax.net.ssl.SNIHostName;
import javax.net.ssl.SSLParameters;

/**
 * Sends requests to node agents over HTTPS; see docs/reference/agent-api.md. One instance per credentials in a JVM, so that all
 * tasks of an executor share connections.
 */
public final class AgentHttp {
  /** Longer reads are several requests, so that a time limit per request is a minimum speed. */
  static final int MAX_REQUEST_BYTES = 8 << 20;

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int OK = 200;
  private static final int PARTIAL_CONTENT = 206;
  private static final int STILL_CHECKED_MILLIS = 1000;
  private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(5);
  /** Shared by all clients, each of which would otherwise have threads of its own for answers. */
  private static final ExecutorService WORKERS = Executors.newCachedThreadPool(AgentHttp::newThread);
  private static final Map<Key, AgentHttp> SHARED = new ConcurrentHashMap<>();

  private record Key(Path tokenFile, Path authorityFile) {}

  /** Whether a transfer is given up after this time without progress; called every second. */
  interface Stillness {
    boolean isTooLong(Duration still) throws IOException;
  }

  private final RenewedFile<String> token;
  private final RenewedFile<Clients> clients;

  /** A client for each node's agent, which accepts only that node's certificate. */
  private record Clients(byte[] authority, Map<String, HttpClient> byNode) {
    Clients(byte[] authority) {
      this(authority, new ConcurrentHashMap<>());
    }

    HttpClient of(String node) throws IOException {
      HttpClient known = byNode.get(node);
      if (known != null) {
        return known;
      }
      HttpClient made = newClient(authority, node);
      HttpClient first = byNode.putIfAbsent(node, made);
      return first == null ? made : first;
    }
  }

  private AgentHttp(Key key) {
    token = new RenewedFile<>(key.tokenFile(), content -> new String(content, StandardCharsets.UTF_8).trim());
    clients = new RenewedFile<>(key.authorityFile(), Clients::new);
  }

  public static AgentHttp shared(Settings settings) {
    return shared(settings.tokenFile(), settings.authorityFile());
  }

  static AgentHttp shared(Path tokenFile, Path authorityFile) {
    return SHARED.computeIfAbsent(new Key(tokenFile, authorityFile), AgentHttp::new);
  }

  private static Thread newThread(Runnable work) {
    Thread thread = new Thread(work, "colocation-agents");
    thread.setDaemon(true);
    return thread;
  }

  private static HttpClient newClient(byte[] authority, String node) throws IOException {
    SSLParameters parameters = new SSLParameters();
    try {
      parameters.setServerNames(List.of(new SNIHostName(AgentTrust.serverName(node))));
    } catch (IllegalArgumentException error) {
      throw new IOException("node " + node + " has a name that a certificate cannot contain", error);
    }
    return HttpClient.newBuilder()
        .version(HttpClient.Version.HTTP_1_1)
        .followRedirects(HttpClient.Redirect.NEVER)
        .connectTimeout(CONNECT_TIMEOUT)
        .executor(WORKERS)
        .sslContext(AgentTrust.context(authority, node))
        .sslParameters(parameters)
        .build();
  }

  /**
   * Reads a range, at most {@link #MAX_REQUEST_BYTES} long, into {@code target}.
   *
   * @param node the agent's, whose certificate has to name it
   * @param url the agent, {@code https://<node's or pod's IP>:<port>}
   * @param target file below {@code /v1/files/}, see {@link #fileTarget}
   * @return bytes read, at least 1; fewer than asked for when the answer was cut off
   * @throws AgentRefused when the agent answered with another status, or was not asked: no credentials, or no TLS there
   * @throws IOException when no byte arrived in time, or none at all: the agent's file is shorter than it was
   */
  int readRange(String node, String url, String target, long position, RangeTarget range, Duration timeout)
      throws IOException {
    HttpRequest request = fileRequest(node, url, target, timeout)
        .header("Range", "bytes=" + position + "-" + (position + range.length() - 1))
        .build();
    BodyHandler<String> handler = answer ->
        answer.statusCode() == PARTIAL_CONTENT ? range : BodySubscribers.ofString(StandardCharsets.UTF_8);
    try {
      HttpResponse<String> answer = send(node, request, handler, timeout);
      if (answer.statusCode() != PARTIAL_CONTENT) {
        throw new AgentRefused(answer.statusCode(), answer.body());
      }
    } catch (AgentRefused | InterruptedIOException error) {
      throw error;
    } catch (IOException error) {
      if (range.received() == 0) {
        throw error;
      }
    }
    int received = range.received();
    if (received == 0) {
      throw new IOException("the answer is empty; the file ends before position " + position);
    }
    return received;
  }

  /** Reads a whole small file, such as a manifest. */
  byte[] readWhole(String node, String url, String target, Duration timeout) throws IOException {
    HttpResponse<byte[]> answer =
        send(node, fileRequest(node, url, target, timeout).build(), HttpResponse.BodyHandlers.ofByteArray(), timeout);
    if (answer.statusCode() != OK) {
      throw new AgentRefused(answer.statusCode(), new String(answer.body(), StandardCharsets.UTF_8));
    }
    return answer.body();
  }

  /**
   * Lets the agent read one of its files and compare it with its digest.
   *
   * @return whether it is damaged; then the agent no longer serves it
   * @throws AgentRefused when the agent did not check, such as when many checks wait
   */
  boolean checkForDamage(String node, String url, ColocPath file, Duration timeout) throws IOException {
    String table = encodeSegment(file.namespace()) + "/" + encodeSegment(file.directory());
    HttpRequest request = request(node, url + "/v1/tables/" + table + "/damage")
        .timeout(timeout)
        .header("Content-Type", "application/json")
        .POST(BodyPublishers.ofByteArray(JSON.writeValueAsBytes(Map.of("path", file.relative()))))
        .build();
    HttpResponse<byte[]> answer = send(node, request, HttpResponse.BodyHandlers.ofByteArray(), timeout);
    if (answer.statusCode() != OK) {
      throw new AgentRefused(answer.statusCode(), new String(answer.body(), StandardCharsets.UTF_8));
    }
    return JSON.readTree(answer.body()).path("damaged").asBoolean();
  }

  /**
   * Sends a request of any kind, for as long as its bytes or those of the answer move.
   *
   * @param more adds method, headers and body
   * @param stillness when it is given up
   * @return an answer of any status
   * @throws AgentFailure when none came
   */
  <T> HttpResponse<T> exchange(
      String node, String address, Consumer<HttpRequest.Builder> more, BodyHandler<T> handler, Transfer transfer,
      Stillness stillness) throws IOException {
    HttpRequest.Builder request;
    HttpClient client;
    try {
      request = withToken(node, address);
      client = clients.get().of(node);
    } catch (AgentRefused error) {
      throw AgentFailure.unusable(error.getMessage());
    } catch (IOException error) {
      throw AgentFailure.noCredentials(error);
    }
    more.accept(request);
    HttpRequest made = request.build();
    CompletableFuture<HttpResponse<T>> answer = client.sendAsync(made, handler);
    try {
      while (true) {
        try {
          return answer.get(STILL_CHECKED_MILLIS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException error) {
          Duration still = Duration.ofNanos(transfer.stillNanos());
          if (stillness.isTooLong(still)) {
            throw new IOException("nothing moved for " + still.toSeconds() + " s", error);
          }
        }
      }
    } catch (InterruptedException error) {
      answer.cancel(true);
      throw interrupted(error);
    } catch (ExecutionException error) {
      throw AgentFailure.unreachable(made.method() + " " + address, asIoException(error.getCause()));
    } catch (InterruptedIOException error) {
      answer.cancel(true);
      throw error;
    } catch (IOException error) {
      answer.cancel(true);
      throw AgentFailure.unreachable(made.method() + " " + address, error);
    }
  }

  private static InterruptedIOException interrupted(InterruptedException error) {
    Thread.currentThread().interrupt();
    return (InterruptedIOException) new InterruptedIOException("interrupted while reading").initCause(error);
  }

  /** A refused connection comes without a message. */
  private static IOException asIoException(Throwable cause) {
    return new IOException(cause.getMessage() == null ? "cannot connect (" + cause + ")" : cause.getMessage(), cause);
  }

  private HttpRequest.Builder fileRequest(String node, String url, String target, Duration timeout)
      throws AgentRefused {
    return request(node, url + "/v1/files/" + target).timeout(timeout).GET();
  }

  private HttpRequest.Builder request(String node, String address) throws AgentRefused {
    try {
      return withToken(node, address);
    } catch (AgentRefused error) {
      throw error;
    } catch (IOException error) {
      throw AgentRefused.noCredentials(error);
    }
  }

  private HttpClient client(String node) throws AgentRefused {
    try {
      return clients.get().of(node);
    } catch (IOException error) {
      throw AgentRefused.noCredentials(error);
    }
  }

  /** Whether requests may go to an address. An editor of a group's ConfigMap can write any; TLS shows who listens. */
  static boolean isAllowed(String address) {
    return address.startsWith("https://");
  }

  /** All requests with a token begin here. */
  private HttpRequest.Builder withToken(String node, String address) throws IOException {
    if (!isAllowed(address)) {
      throw AgentRefused.notAllowed(address.replaceFirst("/v1/.*", ""));
    }
    return HttpRequest.newBuilder(URI.create(address))
        .header("Authorization", "Bearer " + token.get())
        .header("Colocation-Node", node);
  }

  /** The request's own timeout ends with the headers; the body has to arrive in time too. */
  private <T> HttpResponse<T> send(String node, HttpRequest request, BodyHandler<T> handler, Duration timeout)
      throws IOException {
    CompletableFuture<HttpResponse<T>> answer = client(node).sendAsync(request, handler);
    try {
      return answer.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
    } catch (TimeoutException error) {
      answer.cancel(true);
      throw new IOException("no complete answer within " + timeout.toSeconds() + " s", error);
    } catch (InterruptedException error) {
      answer.cancel(true);
      throw interrupted(error);
    } catch (ExecutionException error) {
      throw asIoException(error.getCause());
    }
  }

  /** {@code <namespace>/<directory>/<path>}, percent-encoded once per segment. */
  static String fileTarget(ColocPath path) {
    return fileTarget(path, path.relative());
  }

  /** The target of another file of the same table. */
  static String fileTarget(ColocPath path, String relative) {
    return encode(path.namespace() + "/" + path.directory() + "/" + relative);
  }

  /** A path, percent-encoded once per segment. */
  static String encode(String path) {
    return Arrays.stream(path.split("/")).map(AgentHttp::encodeSegment).collect(Collectors.joining("/"));
  }

  private static String encodeSegment(String segment) {
    StringBuilder encoded = new StringBuilder();
    for (byte octet : segment.getBytes(StandardCharsets.UTF_8)) {
      char character = (char) (octet & 0xff);
      boolean unreserved = character < 0x80 && (Character.isLetterOrDigit(character) || "-._~".indexOf(character) >= 0);
      encoded.append(unreserved ? String.valueOf(character) : String.format(Locale.ROOT, "%%%02X", (int) character));
    }
    return encoded.toString();
  }
}
