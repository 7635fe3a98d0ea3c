package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.KubernetesApi;
import dev.colocation.spark.cluster.Moment;
import java.lang.ref.WeakReference;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;

/**
 * Which moment a query sees. Spark loads a query's tables one after the other, in one thread, and remembers them for as long
 * as it analyzes the query; as long as it remembers one, the others are of the same moment.
 */
final class Moments {
  private record Last(WeakReference<Object> query, Moment moment) {}

  private final KubernetesApi api;
  private final ThreadLocal<Last> last = new ThreadLocal<>();

  Moments(KubernetesApi api) {
    this.api = api;
  }

  /** The moment of the query that this thread analyzes; the present for its first table, and when it analyzes none. */
  Moment current() {
    // What Spark has loaded for the query: an object of the query's own, empty outside of analysis and before the first table.
    var loaded = AnalysisContext.get().relationCache();
    Last known = last.get();
    if (known != null && known.query().get() == loaded && !loaded.isEmpty()) {
      return known.moment();
    }
    Moment moment = new Moment(api);
    last.set(new Last(new WeakReference<>(loaded), moment));
    return moment;
  }
}
