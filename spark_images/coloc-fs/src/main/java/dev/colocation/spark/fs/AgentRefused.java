package dev.colocation.spark.fs;

import java.io.IOException;

/** An agent answered, but not with the file. */
final class AgentRefused extends IOException {
  private static final long serialVersionUID = 1L;
  private static final int NOT_THERE = 404;
  private static final int WRONG_NODE = 421;
  private static final int TOO_MANY_REQUESTS = 429;
  private static final int FIRST_SERVER_ERROR = 500;

  private final int status;

  AgentRefused(int status, String body) {
    super("HTTP " + status + " " + body);
    this.status = status;
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
