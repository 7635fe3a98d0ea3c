package dev.colocation.spark.cluster;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Whether the operator's reports are fresh: by the Lease that a group's ConfigMap names, else by the ConfigMap; the rule and the
 * messages of {@code model/reader_rules.py}.
 */
public final class SignOfLife {
  static final String SIGN_OF_LIFE = "operator.json";

  private static final Duration ALLOWED_SKEW = Duration.ofSeconds(20);
  private static final Duration CACHED = Duration.ofSeconds(5);
  private static final int SHOWN_CHARACTERS = 200;
  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * The API server's answer about a Lease.
   *
   * @param renewTime empty when the Lease could not be read
   * @param askedAtNanos when, by this JVM's monotonic clock
   */
  private record LeaseAnswer(String renewTime, double validSeconds, long askedAtNanos) {
    Duration age() {
      return Duration.ofNanos(System.nanoTime() - askedAtNanos);
    }
  }

  private final KubernetesApi api;
  private final Map<String, LeaseAnswer> answers = new ConcurrentHashMap<>();

  SignOfLife(KubernetesApi api) {
    this.api = api;
  }

  /** Why reports on the group with this ConfigMap are not fresh; empty when they are. */
  String silence(JsonNode configMapData) {
    JsonNode text = configMapData.path(SIGN_OF_LIFE);
    if (text.isMissingNode()) {
      return ""; // written by an operator of the previous release
    }
    JsonNode sign = parsed(text.asText());
    double valid = sign.path("validSeconds").asDouble();
    if (!sign.path("renewTime").isTextual() || !(valid > 0)) {
      String shown = text.asText().substring(0, Math.min(text.asText().length(), SHOWN_CHARACTERS));
      return SIGN_OF_LIFE + " of the group's ConfigMap cannot be read: '" + shown + "'";
    }
    LeaseAnswer lease = lease(sign);
    Instant now = api.now();
    if (!lease.renewTime().isEmpty()) {
      return judge(lease.renewTime(), lease.validSeconds(), now, "Lease " + leaseName(sign) + " of namespace " + leaseNamespace(sign));
    }
    return judge(sign.path("renewTime").asText(), valid, now, "the group's ConfigMap");
  }

  /** When the operator last gave a sign of life; empty when it is unknown. */
  Optional<Instant> lastSign(JsonNode configMapData) {
    JsonNode sign = parsed(configMapData.path(SIGN_OF_LIFE).asText());
    if (!sign.path("renewTime").isTextual()) {
      return Optional.empty();
    }
    String renewed = lease(sign).renewTime();
    return Times.parse(renewed.isEmpty() ? sign.path("renewTime").asText() : renewed);
  }

  private LeaseAnswer lease(JsonNode sign) {
    String namespace = leaseNamespace(sign);
    String name = leaseName(sign);
    return answers.compute(namespace + "/" + name,
        (key, known) -> known != null && known.age().compareTo(CACHED) < 0 ? known : ask(namespace, name));
  }

  private static String leaseNamespace(JsonNode sign) {
    return sign.path("leaseNamespace").asText();
  }

  private static String leaseName(JsonNode sign) {
    return sign.path("leaseName").asText("colocation-operator");
  }

  private LeaseAnswer ask(String namespace, String name) {
    long askedAt = System.nanoTime();
    if (!Names.isObject(namespace) || !Names.isObject(name)) {
      return new LeaseAnswer("", 0, askedAt);
    }
    String path = "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases/" + name;
    KubernetesApi.Answer answer = api.ask(path);
    JsonNode spec = answer.isSuccess() ? answer.body().path("spec") : JSON.createObjectNode();
    JsonNode renewTime = spec.path("renewTime");
    int valid = spec.path("leaseDurationSeconds").asInt();
    boolean isSound = renewTime.isTextual() && valid > 0;
    return new LeaseAnswer(isSound ? renewTime.asText() : "", valid, askedAt);
  }

  /** Why verdicts of an operator that last gave a sign of life at {@code renewTime} do not hold; empty when they do. */
  public static String judge(String renewTime, double validSeconds, Instant now, String witness) {
    Optional<Instant> renewedAt = Times.parse(renewTime);
    if (renewedAt.isEmpty()) {
      return witness + " does not say when the operator was last alive: '" + renewTime + "' is not a time";
    }
    if (renewedAt.get().isAfter(now.plus(ALLOWED_SKEW))) {
      return witness + " was renewed at " + renewTime + ", which is in the future by more than the allowed "
          + ALLOWED_SKEW.toSeconds() + " s: correct the clocks of the API servers' nodes";
    }
    Duration valid = Duration.ofMillis((long) (validSeconds * 1000)).plus(ALLOWED_SKEW);
    if (Duration.between(renewedAt.get(), now).compareTo(valid) > 0) {
      return "the operator has given no sign of life since " + renewTime + " (" + witness
          + "); what it reported on the group may be out of date";
    }
    return "";
  }

  private static JsonNode parsed(String text) {
    try {
      return JSON.readTree(text);
    } catch (JsonProcessingException error) {
      return JSON.createObjectNode();
    }
  }
}
