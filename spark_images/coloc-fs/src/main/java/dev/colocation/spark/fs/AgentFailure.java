package dev.colocation.spark.fs;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.HttpURLConnection;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Set;

/** An agent refused or failed a request; the message has what was given, what is allowed, what to do. */
public final class AgentFailure extends IOException {
  private static final long serialVersionUID = 1L;
  private static final int NO_ANSWER = 0;
  private static final int HTTP_OK = 200;
  private static final int NOT_AUTHORIZED = 401;
  /** Statuses that may pass: the agent starts or stops, or its address has changed. */
  private static final Set<Integer> PASSING = Set.of(NO_ANSWER, 421, 429, 502, 503, 504);
  private static final int SHOWN_CHARACTERS = 200;
  private static final ObjectMapper JSON = new ObjectMapper();

  private final int status;
  private final Duration retryAfter;

  private AgentFailure(int status, String message, Duration retryAfter, Throwable cause) {
    super(message, cause);
    this.status = status;
    this.retryAfter = retryAfter;
  }

  /** No whole answer: not connected, timed out, cut off, or TLS refused. */
  static AgentFailure unreachable(String request, IOException cause) {
    return new AgentFailure(NO_ANSWER, "Unreachable: " + request + ": " + cause.getMessage(), Duration.ZERO, cause);
  }

  static AgentFailure noCredentials(IOException cause) {
    String why = NOT_AUTHORIZED + " " + AgentRefused.NO_CREDENTIALS + cause.getMessage() + AgentRefused.MOUNT_THEM;
    return new AgentFailure(NOT_AUTHORIZED, why, Duration.ZERO, cause);
  }

  /** The answer is not what was requested, or redirects to where requests may not go. */
  static AgentFailure unusable(String why) {
    return new AgentFailure(HTTP_OK, why, Duration.ZERO, null);
  }

  /** The failure for an answer with an unexpected status; a body that is not an agent's JSON is quoted. */
  static AgentFailure refused(int status, byte[] body, Duration retryAfter) {
    JsonNode content = parsed(body);
    String reason = content.path("error").asText("Http" + status);
    String message = content.path("message").asText("the agent gave no message");
    return new AgentFailure(status, status + " " + reason + ": " + message, retryAfter, null);
  }

  private static JsonNode parsed(byte[] body) {
    String text = new String(body, StandardCharsets.UTF_8);
    try {
      JsonNode content = JSON.readTree(text);
      if (content.isObject()) {
        return content;
      }
    } catch (JsonProcessingException error) {
      // Quoted below.
    }
    return JSON.createObjectNode().put("message", text.substring(0, Math.min(text.length(), SHOWN_CHARACTERS)));
  }

  /** The same after several attempts. */
  AgentFailure after(int attempts, Duration passed) {
    String message = getMessage() + "; asked " + attempts + " times in " + passed.toSeconds() + " s";
    return new AgentFailure(status, message, retryAfter, this);
  }

  /** Whether another attempt, here or at the agent's next address, may be answered otherwise. */
  public boolean mayPass() {
    return PASSING.contains(status);
  }

  /** Whether the agent answers that there is no such thing. */
  public boolean isNotFound() {
    return status == HttpURLConnection.HTTP_NOT_FOUND;
  }

  /** How long the agent asks to be left alone; zero if it does not ask. */
  Duration retryAfter() {
    return retryAfter;
  }

  /** An agent answered, but not with the file; or it was not asked, and another attempt would not change that. */
  static final class AgentRefused extends IOException {
    private static final long serialVersionUID = 1L;
    private static final int NOT_ASKED = 0;
    private static final int NOT_AUTHORIZED = 401;
    private static final int NOT_THERE = 404;
    private static final int WRONG_NODE = 421;
    private static final int TOO_MANY_REQUESTS = 429;
    private static final int FIRST_SERVER_ERROR = 500;

    static final String NO_CREDENTIALS = "NoCredentials: cannot read the token or the agents' CA: ";
    static final String MOUNT_THEM = "; mount them as the chart does";

    private final int status;

    AgentRefused(int status, String body) {
      this("HTTP " + status + " " + body, status);
    }

    private AgentRefused(String message, int status) {
      super(message);
      this.status = status;
    }

    /** No agent was asked. It counts as an answer, so that the credentials' missing file is not taken for one of the table's. */
    static AgentRefused noCredentials(IOException cause) {
      AgentRefused refused = new AgentRefused(NOT_AUTHORIZED, NO_CREDENTIALS + cause.getMessage() + MOUNT_THEM);
      refused.initCause(cause);
      return refused;
    }

    /** No agent was asked: a server at that address would learn the token. */
    static AgentRefused notAllowed(String url) {
      return new AgentRefused("agent URL '" + url + "' is not allowed; it must be https://<node's or pod's IP>:<port>. It is from "
          + "the group's ConfigMap (<group>-spark, agents.json), which only the operator should write", NOT_ASKED);
    }

    /** Whether the agent's node has no such file. */
    boolean isNotThere() {
      return status == NOT_THERE;
    }

    /** Whether another attempt at the same agent, or at its next address, may succeed. */
    boolean isTransient() {
      return status == WRONG_NODE || status == TOO_MANY_REQUESTS || status >= FIRST_SERVER_ERROR;
    }
  }
}
