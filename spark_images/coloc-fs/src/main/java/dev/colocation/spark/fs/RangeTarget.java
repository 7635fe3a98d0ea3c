package dev.colocation.spark.fs;

import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/**
 * Writes an answer's body straight into the reader's buffer, and knows how much of it arrived when the connection is cut.
 *
 * <p>A late answer must not write into a buffer that was given back: after {@link #received} nothing more is taken.
 */
final class RangeTarget implements BodySubscriber<String> {
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
