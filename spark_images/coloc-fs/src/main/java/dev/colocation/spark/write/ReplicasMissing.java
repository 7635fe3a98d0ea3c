package dev.colocation.spark.write;

import dev.colocation.spark.cluster.WriteException;

/** Fewer nodes than a majority of a bucket's replicas took a file; the message says why, node by node. */
public final class ReplicasMissing extends WriteException {
  private static final long serialVersionUID = 1L;

  ReplicasMissing(String message) {
    super("ReplicasMissing", message, null);
  }
}
