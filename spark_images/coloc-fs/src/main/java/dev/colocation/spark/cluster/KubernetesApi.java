package dev.colocation.spark.cluster;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.RequestConfig;
import io.fabric8.kubernetes.client.http.HttpClient;
import io.fabric8.kubernetes.client.http.HttpRequest;
import io.fabric8.kubernetes.client.http.HttpResponse;
import java.io.File;
import java.net.HttpURLConnection;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.regex.Pattern;

/**
 * Access to the API server by Spark's own client, which has the configuration, the credentials and the retries; objects are JSON.
 * A JVM has one instance per configuration, so that all sessions share connections.
 */
public final class KubernetesApi implements Cluster.Requests {
  public static final String TABLES = "colocatedtables";
  public static final String GROUPS = "colocationgroups";
  public static final String OWN_VERSION = "colocation.dev/v1alpha1";
  static final String OWN_API = "/apis/" + OWN_VERSION;
  /** Instead of a status: no answer came, so it is unknown whether the request was carried out. */
  public static final int NO_ANSWER = 0;
  /** The message for a 401, after the name of the requested object. */
  private static final String TOKEN_REFUSED = ": the API server does not accept this application's token (401): it has expired, or "
      + "the pod it was made for is not known, as after a restore of etcd; start the application again";

  /** The message for a 403, after the name of the requested object. */
  static final String FORBIDDEN = ": this account may not see or change it; check the name, or ask for ClusterRole "
      + "colocation-user in that namespace, for changes colocation-edit (colocation-view is enough for a group of another one)";

  /** Begins RBAC's refusals; quotas, policies and namespaces that end refuse with the same status. */
  private static final Pattern LACKS_RIGHT = Pattern.compile("User \"[^\"]*\" cannot ");

  /** For a 404 without a Status, which is that of a path that the API server does not serve. */
  private static final String NOT_INSTALLED = ": the cluster does not know ColocatedTables; install the chart there "
      + "(docs/how-to/install.md), or choose another cluster by kubeconfig or context of the catalog";

  /** Refuses fields of a spec that the cluster's kinds do not have: they would be left out silently. */
  public static final String KNOWN_FIELDS_ONLY = "?fieldValidation=Strict";
  private static final String UNKNOWN_FIELD = "unknown field \"";
  private static final String OLDER_KINDS = "; the cluster's kinds are of an older release than this jar: upgrade them first "
      + "(docs/how-to/upgrade.md#steps), or use the Spark image of the operator's release";

  private static final int REQUEST_SECONDS = 30;
  private static final String TOO_LATE = "no answer within " + REQUEST_SECONDS + " s";
  private static final int RETRIES = 4;
  private static final int PAGE_OBJECTS = 500;
  private static final String JSON_ONLY = "application/json";
  private static final String METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<Access, KubernetesApi> SHARED = new ConcurrentHashMap<>();

  /** The address that the client's library takes where it finds neither a pod's account nor a kubeconfig. */
  private static final String NOTHING_FOUND = "https://kubernetes.default.svc";

  /**
   * The API server and the account.
   *
   * @param kubeconfig a file; empty = the pod's own account, or the kubeconfig that kubectl would take
   * @param context of the kubeconfig; empty = its current one
   */
  public record Access(String kubeconfig, String context) {}

  /** An answer of any status; {@code body} is a Status object unless the request succeeded. */
  public record Answer(int status, JsonNode body, Optional<Instant> serverTime) {
    public boolean isSuccess() {
      return status >= HttpURLConnection.HTTP_OK && status < HttpURLConnection.HTTP_MULT_CHOICE;
    }
  }

  private final HttpClient client;
  private final HttpClient clientWithoutRetries;
  private final String server;
  private final SignOfLife signOfLife = new SignOfLife(this);
  private final ServerClock clock = new ServerClock(System::nanoTime, Instant::now);

  private KubernetesApi(Config config) {
    KubernetesClient kubernetes = new KubernetesClientBuilder().withConfig(config).build();
    client = kubernetes.getHttpClient();
    RequestConfig once = new RequestConfig(null, null, null, null, null, null, null, null);
    once.setRequestRetryBackoffLimit(0);
    clientWithoutRetries = client.newBuilder().tag(once).build();
    server = config.getMasterUrl().replaceAll("/+$", "");
  }

  /** The instance of this JVM. */
  public static KubernetesApi shared(Access access) {
    return SHARED.computeIfAbsent(access, key -> new KubernetesApi(config(key)));
  }

  private static Config config(Access access) {
    String context = access.context().isEmpty() ? null : access.context();
    File file = new File(access.kubeconfig());
    if (!access.kubeconfig().isEmpty() && !file.canRead()) {
      throw new ColocationException("kubeconfig " + file + " cannot be read").unchecked();
    }
    Config found = access.kubeconfig().isEmpty() ? Config.autoConfigure(context) : Config.fromKubeconfig(context, file);
    if (found.getMasterUrl().startsWith(NOTHING_FOUND) && found.getAutoOAuthToken() == null && found.getOauthToken() == null) {
      throw new ColocationException("no cluster is configured: this program runs in no pod, and there is no kubeconfig (KUBECONFIG, "
          + "~/.kube/config); run it in the cluster by `colocation submit`, or set kubeconfig of the catalog to a file, e.g. "
          + "spark.sql.catalog.colocation.kubeconfig=/home/ann/.kube/config").unchecked();
    }
    found.setRequestRetryBackoffLimit(RETRIES);
    return found;
  }

  /** The API server's time. */
  public Instant now() {
   return clock.now();
  }

  SignOfLife signOfLife() {
    return signOfLife;
  }

  /**
   * An object or a list.
   *
   * @param what its name in messages
   * @return empty when there is none
   */
  Optional<JsonNode> get(String what, String path) {
    Answer answer = send(what, "GET", path, null);
    return answer.status() == HttpURLConnection.HTTP_NOT_FOUND ? Optional.empty() : Optional.of(checked(what, answer));
  }

  /** The answer's body; an exception when the request was refused. */
  public static JsonNode checked(String what, Answer answer) {
    if (answer.isSuccess()) {
      return answer.body();
    }
    throw new ColocationException(refusal(what, answer)).unchecked();
  }

  /** Whether an error is that of an account without the right to what it asked for. */
  public static boolean isForbidden(Throwable error) {
    return error instanceof ColocationException && error.getMessage().endsWith(FORBIDDEN);
  }

  /** The error message for an answer that refuses a request. */
  static String refusal(String what, Answer answer) {
    String message = answer.body().path("message").asText().strip();
    String answered = ": the API server answered " + (answer.status() == NO_ANSWER ? "nothing" : answer.status()) + ": " + message;
    return what + switch (answer.status()) {
      case HttpURLConnection.HTTP_UNAUTHORIZED -> TOKEN_REFUSED;
      case HttpURLConnection.HTTP_FORBIDDEN -> message.isEmpty() || LACKS_RIGHT.matcher(message).find()
          ? FORBIDDEN : ": the cluster refuses it: " + message;
      case HttpURLConnection.HTTP_NOT_FOUND -> message.isEmpty() ? NOT_INSTALLED : answered;
      case HttpURLConnection.HTTP_BAD_REQUEST -> answered + (message.contains(UNKNOWN_FIELD) ? OLDER_KINDS : "");
      default -> answered;
    };
  }

  /** The metadata of all objects of a collection, page by page; empty when this account may not list them. */
  Optional<List<JsonNode>> metadata(String what, String path) {
    List<JsonNode> found = new ArrayList<>();
    String token = "";
    do {
      String page = path + "?limit=" + PAGE_OBJECTS
          + (token.isEmpty() ? "" : "&continue=" + URLEncoder.encode(token, StandardCharsets.UTF_8));
      Answer answer = send(what, "GET", page, null, METADATA_ONLY);
      if (answer.status() == HttpURLConnection.HTTP_FORBIDDEN) {
        return Optional.empty();
      }
      JsonNode list = checked(what, answer);
      list.path("items").forEach(item -> found.add(item.path("metadata")));
      token = list.path("metadata").path("continue").asText("");
    } while (!token.isEmpty());
    return Optional.of(found);
  }

  /**
   * One request; a read waits for an unavailable API server, see {@link ApiRetries}.
   *
   * @param body JSON; null = none
   */
  public Answer send(String what, String method, String path, JsonNode body) {
    return send(what, method, path, body, JSON_ONLY);
  }

  @Override
  public Answer sendOnce(String method, String path, JsonNode body) {
    return confirmed(() -> exchanged(clientWithoutRetries, method, path, body, JSON_ONLY));
  }

  /** One read, sent once; the caller handles any refusal. */
  Answer ask(String path) {
    return exchanged(clientWithoutRetries, "GET", path, null, JSON_ONLY);
  }

  private Answer confirmed(Supplier<Answer> ask) {
    return ApiRetries.confirmed(ask, () -> ask("/readyz"), Timer.REAL);
  }

  private Answer send(String what, String method, String path, JsonNode body, String accepted) {
    boolean isRead = method.equals("GET");
    HttpClient by = isRead ? clientWithoutRetries : client;
    Supplier<Answer> ask = () -> confirmed(() -> exchanged(by, method, path, body, accepted));
    Answer answer = isRead ? ApiRetries.read(ask, Timer.REAL) : ask.get();
    if (answer.status() == NO_ANSWER || isRead && ApiRetries.isTransient(answer)) {
      String came = answer.status() == NO_ANSWER ? " gave no answer: " : " answered " + answer.status() + ": ";
      String cure = isRead ? "asked for " + ApiRetries.LONGEST.toSeconds() + " s; repeat it when the API server is back"
          : "it may have been done: look before you repeat it";
      throw new ColocationException(what + ": the API server " + server + came + answer.body().path("message").asText()
          + "; " + cure).unchecked();
    }
    return answer;
  }

  private Answer exchanged(HttpClient by, String method, String path, JsonNode body, String accepted) {
    try {
      return exchange(by, method, path, body, accepted);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      return noAnswer("the query was cancelled");
    } catch (TimeoutException error) {
      return noAnswer(TOO_LATE);
    } catch (ExecutionException error) {
      return noAnswer(String.valueOf(error.getCause().getMessage()));
    }
  }

  private static Answer noAnswer(String why) {
    return new Answer(NO_ANSWER, JSON.createObjectNode().put("message", why), Optional.empty());
  }

  private Answer exchange(HttpClient by, String method, String path, JsonNode body, String accepted)
      throws InterruptedException, TimeoutException, ExecutionException {
    HttpRequest.Builder request = by.newHttpRequestBuilder().uri(server + path).header("Accept", accepted);
    if (body != null || !method.equals("GET")) {
      String type = method.equals("PATCH") ? "application/merge-patch+json" : "application/json";
      request.method(method, type, body == null ? "{}" : body.toString());
    }
    HttpResponse<String> answer = by.sendAsync(request.build(), String.class).get(REQUEST_SECONDS, TimeUnit.SECONDS);
    Optional<Instant> time = serverTime(answer.headers("Date"));
    clock.hear(time);
    return new Answer(answer.code(), parsed(answer.body()), time);
  }

  private static JsonNode parsed(String text) {
    try {
      return JSON.readTree(text == null ? "" : text);
    } catch (JsonProcessingException error) {
      return JSON.createObjectNode().put("message", text);
    }
  }

  private static Optional<Instant> serverTime(List<String> dates) {
    try {
      return dates.stream().findFirst()
          .map(date -> ZonedDateTime.parse(date, DateTimeFormatter.RFC_1123_DATE_TIME).toInstant());
    } catch (DateTimeException error) {
      return Optional.empty();
    }
  }

  /** {@code /apis/…/namespaces/<namespace>/<plural>}. */
  public static String collection(String namespace, String plural) {
    return OWN_API + "/namespaces/" + namespace + "/" + plural;
  }

  /**
   * The API server's time: the {@code Date} of its last answer plus the time since; {@code server_clock.py} in Java. A driver
   * whose node's clock is a day ahead would drop a table's history with its next commit.
   */
  public static final class ServerClock {
    private record Heard(Instant time, long atNanos) {}

    private final LongSupplier nanos;
    private final Supplier<Instant> local;
    private volatile Heard heard;

    /**
     * @param nanos monotonic
     * @param local this node's clock, until an answer has had a time
     */
    public ServerClock(LongSupplier nanos, Supplier<Instant> local) {
      this.nanos = nanos;
      this.local = local;
    }

    /** Takes the time of an answer; an answer without one changes nothing. */
    public void hear(Optional<Instant> time) {
      time.ifPresent(at -> heard = new Heard(at, nanos.getAsLong()));
    }

    public Instant now() {
      Heard last = heard;
      return last == null ? local.get() : last.time().plus(Duration.ofNanos(nanos.getAsLong() - last.atNanos()));
    }
  }
}
