package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.ReadDecision.Parallelism;
import dev.colocation.spark.catalog.ReadDecision.Verdict;
import dev.colocation.spark.cluster.CharColumns;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.GroupObject;
import dev.colocation.spark.cluster.KubernetesApi;
import dev.colocation.spark.cluster.Moment;
import dev.colocation.spark.cluster.TableObject;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.fs.ManifestStore;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Finds out all that a query needs of a table. */
final class TableLoader {
  private static final Logger LOG = LoggerFactory.getLogger(TableLoader.class);

  private final String catalog;

  TableLoader(String catalog) {
    this.catalog = catalog;
  }

  /** The table as its newest snapshot is, with the columns that its spec says by now. */
  LoadedTable newest(Moment moment, TableObject object) {
    object.requireRecovered();
    object.requireStatus();
    return load(moment, object, object.newest(), object::shownColumns);
  }

  /** The same; where that cannot be read, the table as its spec says, so that it can be shown and altered. */
  LoadedTable newestIfReadable(Moment moment, TableObject object) {
    try {
      return newest(moment, object);
    } catch (Exception unreadable) {
      return asDefined(moment, object, "it cannot be read: " + unreadable.getMessage(), Optional.of(unreadable));
    }
  }

  /**
   * The table for a write. When what is there cannot be read, or is laid out in another way than the spec says by now, the table
   * is as its spec says: an overwrite replaces that, and the commit of anything else says what is wrong with it.
   */
  LoadedTable written(Moment moment, TableObject object) {
    object.requireStatus();
    try {
      LoadedTable newest = newest(moment, object);
      if (newest.isAsDefined()) {
        return newest;
      }
    } catch (Exception unreadable) {
      LOG.warn("table {}: what is there cannot be read: {}", object.fullName(), unreadable.getMessage());
    }
    return asDefined(moment, object, "its files are not as its definition says", Optional.empty());
  }

  private LoadedTable asDefined(Moment moment, TableObject object, String why, Optional<Exception> unreadable) {
    Optional<Moment.Group> placing = unreadable.isPresent()
        ? groupIfReadable(moment, object) : moment.group(object.namespace(), object.group());
    return new LoadedTable(
        catalog + "." + object.shownName(), object, object.newest(), emptyShape(object, placing), placing, Optional.empty(),
        ReadDecision.ordinary(why), LoadedTable.fileSystem(object, placing, SQLConf.get()), unreadable, false);
  }

  private static Optional<Moment.Group> groupIfReadable(Moment moment, TableObject object) {
    try {
      return moment.group(object.namespace(), object.group());
    } catch (Exception unreadable) {
      LOG.warn("table {}: its group cannot be read: {}", object.fullName(), unreadable.getMessage());
      return Optional.empty();
    }
  }

  /** The table as an older snapshot was, its columns too. */
  LoadedTable older(Moment moment, TableObject object, TableObject.Snapshot snapshot) {
    return load(moment, object, Optional.of(snapshot), Function.identity()).pinned();
  }

  private LoadedTable load(
      Moment moment, TableObject object, Optional<TableObject.Snapshot> snapshot,
      Function<List<Manifest.Column>, List<Manifest.Column>> shown) {
    // Not SQLConf.get(): within a view that is the configuration that the view was made with, as far as Spark keeps it.
    SQLConf conf = SparkSession.active().sessionState().conf();
    Optional<Moment.Group> placing = moment.group(object.namespace(), object.group());
    if (placing.isEmpty() && snapshot.isPresent()) {
      throw new ColocationException("table " + object.fullName() + " has rows, but its ColocationGroup '"
          + object.group().referenceFrom(object.namespace()) + "', which says which nodes hold them, does not exist or has "
          + "no ConfigMap yet; restore it, or leave the table out").unchecked();
    }
    Map<String, String> fileSystem = LoadedTable.fileSystem(object, placing, conf);
    LoadedTable.Shape shape = snapshot.isPresent()
        ? shape(manifest(LoadedTable.location(object, snapshot), fileSystem), shown)
        : emptyShape(object, placing);
    Optional<Moment.Group> group = object.colocateWith().isEmpty() ? Optional.empty() : placing;
    ReadDecision decision = ReadDecision.decide(
        ReadDecision.Switches.of(conf),
        group.map(Moment.Group::object),
        group.map(found -> refusal(object, found.object())).orElse(object.refusal()),
        group.map(found -> inconsistency(shape, found.object())).orElse(""),
        group.map(Moment.Group::silence).orElse(""),
        group.map(found -> found.agents().keySet()).orElse(Set.of()))
        .noting(group.map(found -> fewBuckets(found.object(), shape, conf)).orElse(""));
    Verdict.of(decision).count();
    String name = catalog + "." + object.shownName();
    if (!decision.bucketed()) {
      LOG.warn("table {} is read without its buckets: {}", name, decision.reason());
    }
    return new LoadedTable(name, object, snapshot, shape, placing, group, decision, fileSystem, Optional.empty(), false);
  }

  private static String inconsistency(LoadedTable.Shape shape, GroupObject group) {
    String found = TableObject.inconsistency(shape.columns(), shape.bucketedBy(), shape.buckets(), group);
    return found.isEmpty() ? shape.unpaddedKeys() : found;
  }

  private static String fewBuckets(GroupObject group, LoadedTable.Shape shape, SQLConf conf) {
    int cores = Parallelism.configuredCores(key -> conf.getConfString(key, ""));
    return Parallelism.fewBuckets(group.key().toString(), shape.buckets(), cores);
  }

  private static String refusal(TableObject object, GroupObject group) {
    return object.refusal().isEmpty() ? group.refusal(object.namespace()) : object.refusal();
  }

  private static LoadedTable.Shape shape(
      Manifest manifest, Function<List<Manifest.Column>, List<Manifest.Column>> shown) {
    return new LoadedTable.Shape(
        shown.apply(manifest.columns()), manifest.bucketedBy(), manifest.partitionedBy(), manifest.sortedBy(),
        manifest.buckets(), manifest.padded());
  }

  private static LoadedTable.Shape emptyShape(TableObject object, Optional<Moment.Group> placing) {
    int buckets = placing.map(found -> found.object().bucketCount()).orElse(Math.max(object.buckets(), 1));
    return new LoadedTable.Shape(
        object.columns(), object.bucketedBy(), object.partitionedBy(), object.sortedBy(), buckets,
        CharColumns.lengths(object.columns()));
  }

  static Manifest manifest(String location, Map<String, String> fileSystem) {
    try {
      return ManifestStore.get(new Path(location), configuration(fileSystem));
    } catch (IOException error) {
      throw new ColocationException(error.getMessage(), error).unchecked();
    }
  }

  /** The session's, with what the file system is told of a table. */
  static Configuration configuration(Map<String, String> fileSystem) {
    Configuration configuration = SparkSession.active().sessionState().newHadoopConf();
    fileSystem.forEach(configuration::set);
    return configuration;
  }

  /**
   * Which moment a query sees. Spark loads a query's tables one after the other, in one thread, and remembers them for as long
   * as it analyzes the query; as long as it remembers one, the others are of the same moment.
   */
  static final class Moments {
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
}
