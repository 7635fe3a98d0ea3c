package dev.colocation.spark.cluster;

/** The API server failed, or did not answer: what was asked of it may have been done, or may still be. */
public final class NoAnswer extends Exception {
  private static final long serialVersionUID = 1L;

  NoAnswer(String message) {
    super(message);
  }
}
