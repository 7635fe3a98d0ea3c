package dev.colocation.spark.write;

/** The object was changed by someone else since it was read; this write did nothing. */
final class WriteConflict extends Exception {
  private static final long serialVersionUID = 1L;

  WriteConflict(String message) {
    super(message);
  }
}
