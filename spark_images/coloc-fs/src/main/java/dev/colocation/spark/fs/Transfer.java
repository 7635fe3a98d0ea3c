package dev.colocation.spark.fs;

import java.io.Closeable;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Flow;

/**
 * Tracks whether the bytes of a request or its answer still move: transfers of any length are cut off only when they make no
 * progress. It owns the local files that are read or written meanwhile.
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

  /**
   * Writes an answer's body directly into the reader's buffer, and counts the bytes that arrived before the connection was cut.
   *
   * <p>A late answer must not write into a buffer that was given back: after {@link #received} no more bytes are accepted.
   */
  static final class RangeTarget implements BodySubscriber<String> {
    private final byte[] buffer;
    private final int offset;
    private final int length;
    private final CompletableFuture<String> done = new CompletableFuture<>();
    private int received;
    private boolean closed;

    RangeTarget(byte[] buffer, int offset, int length) {
      this.buffer = buffer;
      this.offset = offset;
      this.length = length;
    }

    int length() {
      return length;
    }

    /** How many bytes arrived; closes the target. */
    synchronized int received() {
      closed = true;
      return received;
    }

    @Override
    public void onSubscribe(Flow.Subscription subscription) {
      subscription.request(Long.MAX_VALUE);
    }

    @Override
    public synchronized void onNext(List<ByteBuffer> parts) {
      for (ByteBuffer part : parts) {
        int taken = closed ? 0 : Math.min(part.remaining(), length - received);
        part.get(buffer, offset + received, taken);
        received += taken;
      }
    }

    @Override
    public void onError(Throwable error) {
      done.completeExceptionally(error);
    }

    @Override
    public void onComplete() {
      done.complete("");
    }

    @Override
    public CompletionStage<String> getBody() {
      return done;
    }
  }
}
