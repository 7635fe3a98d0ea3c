package dev.colocation.spark.write;

/** The committed files are no longer those that a change began on, and it may not go on top of them. */
public final class Overtaken extends Exception {
  private static final long serialVersionUID = 1L;

  Overtaken(String message) {
    super(message);
  }
}
