package dev.colocation.spark.fs;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What all executors of this application have read, kept on the driver. Executors send their running totals, so a message
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
}
