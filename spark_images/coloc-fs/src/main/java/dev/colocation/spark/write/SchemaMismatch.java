package dev.colocation.spark.write;

import dev.colocation.spark.cluster.WriteException;

/** The rows do not fit the table; names every difference with what was given and what is expected. */
public final class SchemaMismatch extends WriteException {
  private static final long serialVersionUID = 1L;

  SchemaMismatch(String message) {
    super("SchemaMismatch", message, null);
  }
}
