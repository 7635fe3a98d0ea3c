package dev.colocation.spark.cluster;

/** The object was changed by someone else since it was read; this write did nothing. */
public final class WriteConflict extends Exception {
  private static final long serialVersionUID = 1L;

  WriteConflict(String message) {
    super(message);
  }
}
