package dev.colocation.spark.write;

import dev.colocation.spark.cluster.WriteException;

/** None of the agents gave what was asked for; the message says what each one said. */
public final class NoAgentAnswers extends WriteException {
  private static final long serialVersionUID = 1L;

  NoAgentAnswers(String message) {
    super("NoAgentAnswers", message, null);
  }
}
