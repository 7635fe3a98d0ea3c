package dev.colocation.spark.write;

import java.io.IOException;

/** None of the agents gave what was asked for; the message says what each one said. */
public final class NoAgentAnswers extends IOException {
  private static final long serialVersionUID = 1L;

  NoAgentAnswers(String message) {
    super(message);
  }
}
