package dev.colocation.spark.cluster;

/** An option of a write that cannot be taken; says what was given and what is allowed. Nothing was written. */
public final class InvalidOption extends WriteException {
  private static final long serialVersionUID = 1L;

  public InvalidOption(String message) {
    super("InvalidOption", message, null);
  }
}
