package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.ReadDecision.Parallelism;
import dev.colocation.spark.catalog.ReadDecision.Verdict;
import dev.colocation.spark.cluster.ClusterView;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.ColocationGroup;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.cluster.TypeNames;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.ColocPath;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.fs.ManifestStore;
import dev.colocation.spark.fs.Settings;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Reads everything that a query needs of a table. */
final class TableLoader {
  private static final Logger LOG = LoggerFactory.getLogger(TableLoader.class);

  private final String catalog;

  TableLoader(String catalog) {
    this.catalog = catalog;
  }

  /** The table at its newest snapshot, with the columns of its present spec. */
  LoadedTable newest(ClusterView view, ColocatedTable object) {
    object.requireRecovered();
    object.requireSnapshots();
    return load(view, object, object.snapshot(), object::shownColumns);
  }

  /** The same; where the snapshot cannot be read, the table by its spec, so that it can be shown and altered. */
  LoadedTable newestIfReadable(ClusterView view, ColocatedTable object) {
    try {
      return newest(view, object);
    } catch (Exception unreadable) {
      return asDefined(view, object, "it cannot be read: " + unreadable.getMessage(), Optional.of(unreadable));
    }
  }

  /**
   * The table for a write. When its rows cannot be read, or their layout is not the present spec's, the table is read by its
   * spec: an overwrite replaces the rows, and the commit of any other change reports the problem.
   */
  LoadedTable written(ClusterView view, ColocatedTable object) {
    object.requireSnapshots();
    try {
      LoadedTable newest = newest(view, object);
      if (newest.isAsDefined()) {
        return newest;
      }
    } catch (Exception unreadable) {
      LOG.warn("table {}: what is there cannot be read: {}", object.fullName(), unreadable.getMessage());
    }
    return asDefined(view, object, "its files do not fit its definition", Optional.empty());
  }

  private LoadedTable asDefined(ClusterView view, ColocatedTable object, String why, Optional<Exception> unreadable) {
    Optional<ClusterView.PlacingGroup> placing = unreadable.isPresent()
        ? groupIfReadable(view, object) : view.group(object.namespace(), object.group());
    return new LoadedTable(
        catalog + "." + object.shownName(), object, object.snapshot(), emptyShape(object, placing), placing, Optional.empty(),
        ReadDecision.ordinary(why), LoadedTable.fileSystem(object, placing, SQLConf.get()), unreadable, false);
  }

  private static Optional<ClusterView.PlacingGroup> groupIfReadable(ClusterView view, ColocatedTable object) {
    try {
      return view.group(object.namespace(), object.group());
    } catch (Exception unreadable) {
      LOG.warn("table {}: its group cannot be read: {}", object.fullName(), unreadable.getMessage());
      return Optional.empty();
    }
  }

  /** The table at an older snapshot, with that snapshot's columns. */
  LoadedTable older(ClusterView view, ColocatedTable object, Snapshot snapshot) {
    return load(view, object, Optional.of(snapshot), Function.identity()).pinned();
  }

  private LoadedTable load(
      ClusterView view, ColocatedTable object, Optional<Snapshot> snapshot,
      Function<List<Manifest.Column>, List<Manifest.Column>> shown) {
    // Not SQLConf.get(): within a view that is the configuration that the view was made with, as far as Spark keeps it.
    SQLConf conf = SparkSession.active().sessionState().conf();
    Optional<ClusterView.PlacingGroup> placing = view.group(object.namespace(), object.group());
    if (placing.isEmpty() && snapshot.isPresent()) {
      throw new ColocationException("table " + object.fullName() + " has rows, but its ColocationGroup '"
          + object.group().referenceFrom(object.namespace()) + "', whose map places them on nodes, does not exist or has "
          + "no ConfigMap yet; restore it, or leave the table out").unchecked();
    }
    Map<String, String> fileSystem = LoadedTable.fileSystem(object, placing, conf);
    LoadedTable.Shape shape = snapshot.isPresent()
        ? shape(manifest(LoadedTable.location(object, snapshot), fileSystem), shown)
        : emptyShape(object, placing);
    Optional<ClusterView.PlacingGroup> group = object.colocateWith().isEmpty() ? Optional.empty() : placing;
    ReadDecision decision = ReadDecision.decide(
        ReadDecision.Switches.of(conf),
        group.map(ClusterView.PlacingGroup::object),
        group.map(found -> refusal(object, found.object())).orElse(object.refusal()),
        group.map(found -> inconsistency(shape, found.object())).orElse(""),
        group.map(ClusterView.PlacingGroup::silence).orElse(""),
        group.map(found -> found.agents().keySet()).orElse(Set.of()))
        .noting(group.map(found -> fewBuckets(object, found.object(), shape, conf)).orElse(""));
    Verdict.of(decision).count();
    String name = catalog + "." + object.shownName();
    if (!decision.bucketed()) {
      LOG.warn("table {} is read without its buckets: {}", name, decision.reason());
    }
    return new LoadedTable(name, object, snapshot, shape, placing, group, decision, fileSystem, Optional.empty(), false);
  }

  private static String inconsistency(LoadedTable.Shape shape, ColocationGroup group) {
    String found = group.inconsistency(shape.layout(), shape.buckets());
    return found.isEmpty() ? shape.unpaddedKeys() : found;
  }

  private static String fewBuckets(ColocatedTable object, ColocationGroup group, LoadedTable.Shape shape, SQLConf conf) {
    int cores = Parallelism.configuredCores(key -> conf.getConfString(key, ""));
    return shape.buckets().areEqual() ? Parallelism.fewBuckets(group.key().toString(), shape.buckets().ofTable(), cores)
        : Parallelism.fewBucketsOfTable(object.fullName(), shape.buckets().ofTable(), cores);
  }

  private static String refusal(ColocatedTable object, ColocationGroup group) {
    return object.refusal().isEmpty() ? group.refusal(object.namespace()) : object.refusal();
  }

  private static LoadedTable.Shape shape(
      Manifest manifest, Function<List<Manifest.Column>, List<Manifest.Column>> shown) {
    TableLayout layout = new TableLayout(
        shown.apply(manifest.columns()), manifest.bucketedBy(), manifest.partitionedBy(), manifest.sortedBy());
    return new LoadedTable.Shape(layout, manifest.buckets(), manifest.padded());
  }

  private static LoadedTable.Shape emptyShape(ColocatedTable object, Optional<ClusterView.PlacingGroup> placing) {
    Buckets buckets = placing.map(found -> object.buckets(found.object().bucketCount()))
        .orElse(Buckets.asGroup(Math.max(object.buckets(), 1)));
    return new LoadedTable.Shape(object.layout(), buckets, TypeNames.charLengths(object.layout().columns()));
  }

  /** A snapshot's files: their lengths by their paths. */
  static SortedMap<String, Long> files(ClusterView view, ColocatedTable object, Snapshot snapshot) {
    SortedMap<String, Long> found = new TreeMap<>();
    Map<String, String> fileSystem = LoadedTable.fileSystem(
        object, view.group(object.namespace(), object.group()), SparkSession.active().sessionState().conf());
    ColocPath location = ColocPath.parse(new Path(LoadedTable.location(object, Optional.of(snapshot))));
    try {
      ManifestStore.visit(location, new Settings(configuration(fileSystem)), "", (path, file) -> found.put(path, file.bytes()));
    } catch (IOException error) {
      throw new ColocationException(error.getMessage(), error).unchecked();
    }
    return Collections.unmodifiableSortedMap(found);
  }

  static Manifest manifest(String location, Map<String, String> fileSystem) {
    try {
      return ManifestStore.get(new Path(location), configuration(fileSystem));
    } catch (IOException error) {
      throw new ColocationException(error.getMessage(), error).unchecked();
    }
  }

  /** The session's, with the file system's options for a table. */
  static Configuration configuration(Map<String, String> fileSystem) {
    Configuration configuration = SparkSession.active().sessionState().newHadoopConf();
    fileSystem.forEach(configuration::set);
    return configuration;
  }

  /**
   * The view of the cluster that a query has. Spark loads a query's tables one after the other, in one thread, and remembers them
   * while it analyzes the query; as long as it remembers one, the others are read from the same view.
   */
  static final class QueryViews {
    private record Last(WeakReference<Object> query, ClusterView view) {}

    private final ThreadLocal<Last> last = new ThreadLocal<>();

    /**
     * The view of the query that this thread analyzes.
     *
     * @param present a new view, for the query's first table, and outside of queries
     */
    ClusterView current(Supplier<ClusterView> present) {
      // The query's own cache of loaded relations; empty outside of analysis and before the first table.
      var loaded = AnalysisContext.get().relationCache();
      Last known = last.get();
      if (known != null && known.query().get() == loaded && !loaded.isEmpty()) {
        return known.view();
      }
      ClusterView view = present.get();
      last.set(new Last(new WeakReference<>(loaded), view));
      return view;
    }
  }
}
