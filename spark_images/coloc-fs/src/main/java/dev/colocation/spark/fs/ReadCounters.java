package dev.colocation.spark.fs;

import java.io.Serializable;
import java.util.concurrent.atomic.LongAdder;

/** What the tasks of this JVM have read since it started. */
public final class ReadCounters {
  /** The one instance of a JVM: an executor's, or the driver's in local mode. */
  public static final ReadCounters OF_THIS_JVM = new ReadCounters();

  /** A picture of the counters, as sent to the driver. */
  public record Totals(long localBytes, long remoteBytes, long localFiles, long remoteFiles) implements Serializable {
    public static final Totals ZERO = new Totals(0, 0, 0, 0);

    Totals plus(Totals other) {
      return new Totals(
          localBytes + other.localBytes,
          remoteBytes + other.remoteBytes,
          localFiles + other.localFiles,
          remoteFiles + other.remoteFiles);
    }

    public Totals minus(Totals other) {
      return new Totals(
          localBytes - other.localBytes,
          remoteBytes - other.remoteBytes,
          localFiles - other.localFiles,
          remoteFiles - other.remoteFiles);
    }
  }

  private final LongAdder localBytes = new LongAdder();
  private final LongAdder remoteBytes = new LongAdder();
  private final LongAdder localFiles = new LongAdder();
  private final LongAdder remoteFiles = new LongAdder();

  void addLocal(long bytes, int files) {
    localBytes.add(bytes);
    localFiles.add(files);
  }

  void addRemote(long bytes, int files) {
    remoteBytes.add(bytes);
    remoteFiles.add(files);
  }

  public Totals totals() {
    return new Totals(localBytes.sum(), remoteBytes.sum(), localFiles.sum(), remoteFiles.sum());
  }
}
