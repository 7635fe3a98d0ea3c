package dev.colocation.spark.fs;

import java.io.IOException;

/** An agent answered, but not with the file; or it was not asked, and another attempt would not change that. */
final class AgentRefused extends IOException {
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

  /** No agent was asked. It counts as an answer, so that nobody takes the credentials' missing file for one of the table's. */
  static AgentRefused noCredentials(IOException cause) {
    AgentRefused refused = new AgentRefused(NOT_AUTHORIZED, NO_CREDENTIALS + cause.getMessage() + MOUNT_THEM);
    refused.initCause(cause);
    return refused;
  }

  /** No agent was asked: whoever listens there would learn the token. */
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
