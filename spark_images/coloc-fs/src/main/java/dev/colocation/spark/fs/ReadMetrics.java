package dev.colocation.spark.fs;

import java.io.Serializable;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;

/**
 * Bytes and files that all executors of this application have read, on the driver. Executors send their running totals, so a message
 * that is sent twice changes nothing.
 */
public final class ReadMetrics {
  public static final ReadMetrics OF_THIS_DRIVER = new ReadMetrics();

  private final Map<String, ReadCounters.Totals> byExecutor = new ConcurrentHashMap<>();

  private ReadMetrics() {}

  public void report(String executor, ReadCounters.Totals totals) {
    byExecutor.put(executor, totals);
  }

  public void clear() {
    byExecutor.clear();
  }

  /** For Python: local bytes, remote bytes, local files, remote files since the application started. */
  public static long[] totals() {
    ReadCounters.Totals sum = OF_THIS_DRIVER.byExecutor.values().stream()
        .reduce(ReadCounters.Totals.ZERO, ReadCounters.Totals::plus);
    return new long[] {sum.localBytes(), sum.remoteBytes(), sum.localFiles(), sum.remoteFiles()};
  }

  /** Bytes and files that the tasks of this JVM have read since it started. */
  public static final class ReadCounters {
    /** The one instance of a JVM: an executor's, or the driver's in local mode. */
    public static final ReadCounters OF_THIS_JVM = new ReadCounters();

    /** The counters' values, as sent to the driver. */
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
}
