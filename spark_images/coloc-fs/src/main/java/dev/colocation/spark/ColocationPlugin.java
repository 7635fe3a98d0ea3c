package dev.colocation.spark;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import dev.colocation.spark.catalog.ReadDecision.Verdict;
import dev.colocation.spark.fs.ExecutorHosts;
import dev.colocation.spark.fs.ReadMetrics;
import dev.colocation.spark.fs.ReadMetrics.ReadCounters;
import dev.colocation.spark.plan.UnknownSpark;
import dev.colocation.spark.ui.ColocationTab;
import dev.colocation.spark.write.CommitMetric;
import java.io.Serializable;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Counts for the driver how many bytes executors read from local disk and from other nodes, and adds the tab of verdicts to the
 * web UI ({@code spark.plugins=dev.colocation.spark.ColocationPlugin}).
 */
public final class ColocationPlugin implements SparkPlugin {
  private record Report(String executor, ReadCounters.Totals totals) implements Serializable {}

  @Override
  public DriverPlugin driverPlugin() {
    return new Driver();
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new Executor();
  }

  private static final class Driver implements DriverPlugin {
    @Override
    public Map<String, String> init(SparkContext context, PluginContext pluginContext) {
      ReadMetrics.OF_THIS_DRIVER.clear();
      Verdict.clear();
      CommitMetric.clear();
      ExecutorHosts.OF_THIS_DRIVER.follow(context);
      UnknownSpark.orNothing(() -> ColocationTab.addTo(context));
      return Map.of();
    }

    @Override
    public void registerMetrics(String application, PluginContext pluginContext) {
      DriverMetrics.register(pluginContext.metricRegistry());
    }

    @Override
    public Object receive(Object message) {
      if (message instanceof Report report) {
        ReadMetrics.OF_THIS_DRIVER.report(report.executor(), report.totals());
      }
      return Boolean.TRUE;
    }
  }

  /** Asks and waits for the answer, so that the driver has the counts before it sees the end of the task. */
  private static final class Executor implements ExecutorPlugin {
    private static final Logger LOG = LoggerFactory.getLogger(ColocationPlugin.class);

    private PluginContext context;
    private ReadCounters.Totals before = ReadCounters.Totals.ZERO;
    private ReadCounters.Totals reported = ReadCounters.Totals.ZERO;

    @Override
    public void init(PluginContext pluginContext, Map<String, String> extraConf) {
      context = pluginContext;
      // In local mode one JVM may run several applications one after the other.
      before = ReadCounters.OF_THIS_JVM.totals();
    }

    @Override
    public void onTaskSucceeded() {
      report();
    }

    @Override
    public void onTaskFailed(TaskFailedReason reason) {
      report();
    }

    private synchronized void report() {
      ReadCounters.Totals totals = ReadCounters.OF_THIS_JVM.totals().minus(before);
      if (totals.equals(reported)) {
        return;
      }
      try {
        context.ask(new Report(context.executorID(), totals));
        reported = totals;
      } catch (Exception error) {
        // The next task's report carries these counts too; a query must not fail for its metrics.
        LOG.warn("cannot report what was read to the driver: {}", error.toString());
      }
    }
  }

  /** What an application has read, how its tables were read, and what it committed, for Spark's own metrics system. */
  static final class DriverMetrics {
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
      for (CommitMetric metric : CommitMetric.values()) {
        registry.register("commit." + metric.word(), (Gauge<Long>) metric::total);
      }
    }
  }
}
