package dev.colocation.spark.fs;

import dev.colocation.spark.fs.AgentAddresses.AgentAddress;
import dev.colocation.spark.fs.AgentFailure.AgentRefused;
import dev.colocation.spark.fs.ReadMetrics.ReadCounters;
import java.io.Closeable;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.file.NoSuchFileException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * Reads one file from the first replica that answers, and continues with the next one when a replica fails in the middle.
 *
 * <p>Files are immutable and of known length, so bytes from two replicas fit together.
 */
public final class ReplicaReader implements Closeable {
  private final String file;
  private final List<Replica> replicas;
  private final Duration deadline;
  private final ReadCounters counters;
  private int current;
  private boolean countedLocal;
  private boolean countedRemote;

  /**
   * @param file for error messages: table, bucket and path
   * @param replicas best first, at least one
   */
  public ReplicaReader(String file, List<Replica> replicas, Duration deadline, ReadCounters counters) {
    this.file = file;
    this.replicas = replicas;
    this.deadline = deadline;
    this.counters = counters;
  }

  int blockBytes() {
    return replicas.get(current).blockBytes();
  }

  /**
   * Reads a range from one or several replicas.
   *
   * @throws FileNotFoundException when no node has the file any longer
   */
  void readFully(long position, byte[] target, int offset, int length) throws IOException {
    int done = 0;
    while (done < length) {
      done += readSome(position + done, target, offset + done, length - done);
    }
  }

  private int readSome(long position, byte[] target, int offset, int length) throws IOException {
    Map<String, String> failures = new LinkedHashMap<>();
    Rounds rounds = new Rounds(deadline);
    while (true) {
      boolean worthRetrying = false;
      Absence absence = new Absence();
      for (int attempt = 0; attempt < replicas.size(); attempt++) {
        Replica replica = replicas.get(current);
        try {
          int count = replica.read(position, target, offset, length);
          count(replica, count);
          return count;
        } catch (InterruptedIOException | ClosedByInterruptException error) {
          throw error;
        } catch (IOException error) {
          failures.put(replica.place(), String.valueOf(error.getMessage()));
          absence.add(error);
          if (replica.isLocal()) {
            SuspectedCopies.reportUnreadable(replicas);
          }
          worthRetrying |= !replica.isLocal() && AgentAddress.mayPass(error);
          replica.close();
          current = (current + 1) % replicas.size();
        }
      }
      if (absence.isCertain()) {
        throw new FileNotFoundException("no node has " + file + " any longer. " + Absence.CAUSE + ". Asked: " + listed(failures));
      }
      if (!worthRetrying || !rounds.waitForAnother()) {
        throw new IOException(message(position, failures, rounds));
      }
    }
  }

  private void count(Replica replica, int bytes) {
    if (replica.isLocal()) {
      counters.addLocal(bytes, countedLocal ? 0 : 1);
      countedLocal = true;
    } else {
      counters.addRemote(bytes, countedRemote ? 0 : 1);
      countedRemote = true;
    }
  }

  private String message(long position, Map<String, String> failures, Rounds rounds) {
    return "no replica of " + file + " could be read at position " + position + ". " + rounds.tried() + ": "
        + listed(failures) + ". See the group's unstable buckets: kubectl get colocationgroups -o wide";
  }

  private static String listed(Map<String, String> failures) {
    return failures.entrySet().stream()
        .map(failure -> failure.getKey() + ": " + failure.getValue())
        .collect(Collectors.joining("; "));
  }

  @Override
  public void close() throws IOException {
    for (Replica replica : replicas) {
      replica.close();
    }
  }

  /** Rounds over all replicas, with pauses that grow between them, until a time is over. Counts from the first round's end. */
  static final class Rounds {
    private static final long FIRST_DELAY_MILLIS = 200;
    private static final long MAX_DELAY_MILLIS = 5000;

    private final long startedAt = System.nanoTime();
    private final Duration deadline;
    private long giveUpAt;
    private long delayMillis = FIRST_DELAY_MILLIS;

    Rounds(Duration deadline) {
      this.deadline = deadline;
    }

    /** Waits before another round, the last one of which begins when the time is over; returns false immediately after that. */
    boolean waitForAnother() throws InterruptedIOException {
      long now = System.nanoTime();
      giveUpAt = giveUpAt == 0 ? now + deadline.toNanos() : giveUpAt;
      if (now >= giveUpAt) {
        return false;
      }
      try {
        long pauseMillis = ThreadLocalRandom.current().nextLong(delayMillis / 2, delayMillis + 1);
        TimeUnit.NANOSECONDS.sleep(Math.min(pauseMillis * 1_000_000, giveUpAt - now));
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        throw (InterruptedIOException) new InterruptedIOException("interrupted while waiting to read").initCause(error);
      }
      delayMillis = Math.min(2 * delayMillis, MAX_DELAY_MILLIS);
      return true;
    }

    /** For error messages: how long it has been tried. */
    String tried() {
      long seconds = Math.round((System.nanoTime() - startedAt) / 1e9);
      return "Tried for " + seconds + " s (spark.colocation.retrySeconds=" + deadline.toSeconds() + ")";
    }
  }

  /**
   * Collects the answers about one file. If every place answers that it has none, the file is gone, which another attempt does not
   * change; while one place is away, that is unknown.
   */
  static final class Absence {
    /** For error messages: why files disappear, and what to do. */
    static final String CAUSE = "Its table was dropped while the query ran (`colocation recover` brings it back), or its snapshot is "
        + "older than the table's retention keeps: run the query again. If that fails too, copies were lost: see the group's "
        + "unstable buckets: kubectl get colocationgroups -o wide";

    private boolean isSaid;
    private boolean isDenied;

    /** Adds the failure of one more place. */
    void add(IOException failure) {
      boolean isAbsent = failure instanceof NoSuchFileException || failure instanceof FileNotFoundException
          || failure instanceof AgentRefused refused && refused.isNotThere();
      isSaid |= isAbsent;
      isDenied |= !isAbsent;
    }

    /** Whether at least one place was read, and no place has the file. */
    boolean isCertain() {
      return isSaid && !isDenied;
    }
  }
}
