package dev.colocation.spark;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import dev.colocation.spark.catalog.Verdict;
import dev.colocation.spark.fs.ReadMetrics;
import java.util.List;

/** What an application has read and how its tables were read, for Spark's own metrics system. */
final class DriverMetrics {
  private static final List<String> READ = List.of("localBytes", "remoteBytes", "localFiles", "remoteFiles");

  private DriverMetrics() {}

  static void register(MetricRegistry registry) {
    for (int index = 0; index < READ.size(); index++) {
      int position = index;
      registry.register(READ.get(index), (Gauge<Long>) () -> ReadMetrics.totals()[position]);
    }
    for (Verdict verdict : Verdict.values()) {
      registry.register("verdict." + verdict.word(), (Gauge<Long>) verdict::total);
    }
  }
}
