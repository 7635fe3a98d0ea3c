package dev.colocation.spark.fs;

import java.io.Closeable;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * Whether the bytes of a request or its answer still move: transfers of any length are cut off only when they stand still.
 * It owns the local files that are read or written meanwhile.
 */
final class Transfer implements AutoCloseable {
  private final List<Closeable> owned = new CopyOnWriteArrayList<>();
  private volatile long movedAtNanos = System.nanoTime();

  void moved() {
    movedAtNanos = System.nanoTime();
  }

  /** Closed with the transfer, also when it is cut off. */
  <T extends Closeable> T own(T file) {
    owned.add(file);
    return file;
  }

  @Override
  public void close() throws IOException {
    for (Closeable file : owned) {
      file.close();
    }
  }

  long stillNanos() {
    return System.nanoTime() - movedAtNanos;
  }

  /** A local file as a request's body. */
  BodyPublisher bodyOf(Path file) throws IOException {
    return BodyPublishers.fromPublisher(BodyPublishers.ofInputStream(() -> watched(file)), Files.size(file));
  }

  private InputStream watched(Path file) {
    try {
      return new FilterInputStream(own(Files.newInputStream(file))) {
        @Override
        public int read(byte[] target, int start, int length) throws IOException {
          moved();
          return super.read(target, start, length);
        }
      };
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
