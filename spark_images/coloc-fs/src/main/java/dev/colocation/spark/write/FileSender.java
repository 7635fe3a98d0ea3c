package dev.colocation.spark.write;

import java.nio.file.Path;

/** Sends files to the nodes of their buckets. Safe to share between threads. */
public final class FileSender {
  private final Destination destination;

  public FileSender(Destination destination) {
    this.destination = destination;
  }

  /**
   * Sends a file to all nodes of its bucket, and to substitutes for those that do not take it.
   *
   * @param content a local file of {@code file.bytes()} bytes
   * @throws ReplicasMissing when a majority did not take it
   */
  public SentFile send(DataFile file, Path content) throws ReplicasMissing {
    throw new UnsupportedOperationException(destination.toString());
  }
}
