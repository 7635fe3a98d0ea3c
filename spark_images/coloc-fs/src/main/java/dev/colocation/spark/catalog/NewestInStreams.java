package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ClusterView;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.write.ReadSnapshot;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.QueryPlanningTracker$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.runtime.AbstractPartialFunction;

/**
 * Lets each micro-batch of a stream, and each query within {@code foreachBatch}, read the newest snapshots, all at one version.
 * Other queries keep the snapshots with which they were analyzed; a stream is analyzed once, and may run for months.
 *
 * <p>Cached rows stay, since Spark puts them into a plan before it is optimized; so does a snapshot that the query names.
 */
public final class NewestInStreams extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(NewestInStreams.class);

  /**
   * A local property of a stream's thread: {@code StreamExecution.QUERY_ID_KEY}, whose class is in different packages in versions
   * of Spark.
   */
  private static final String STREAM = "sql.streaming.queryId";

  /** Tables by their catalogs. Subqueries are optimized separately, with the tracker of their query. */
  private static final Map<QueryPlanningTracker, Map<Supplier<NewestTables>, NewestTables>> READ =
      Collections.synchronizedMap(new WeakHashMap<>());

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      return SparkSession.active().sparkContext().getLocalProperty(STREAM) == null ? plan : plan.transformUp(new Newest(tables()));
    } catch (LinkageError error) {
      LOG.warn("this Spark's plans are not understood; streams go on reading the snapshots with which they began", error);
      return plan;
    }
  }

  private static Map<Supplier<NewestTables>, NewestTables> tables() {
    Option<QueryPlanningTracker> query = QueryPlanningTracker$.MODULE$.get();
    return query.isEmpty() ? new HashMap<>() : READ.computeIfAbsent(query.get(), absent -> new HashMap<>());
  }

  private static final class Newest extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1L;

    private final transient Map<Supplier<NewestTables>, NewestTables> tables;

    Newest(Map<Supplier<NewestTables>, NewestTables> tables) {
      this.tables = tables;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return node instanceof LogicalRelation logical && logical.relation() instanceof HadoopFsRelation files
          && files.location() instanceof FileIndexes.OfCatalog
          && ReadSnapshot.of(files).filter(read -> !read.isPinned()).isPresent();
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      LogicalRelation logical = (LogicalRelation) node;
      HadoopFsRelation files = (HadoopFsRelation) logical.relation();
      FileIndexes.OfCatalog index = (FileIndexes.OfCatalog) files.location();
      return tables.computeIfAbsent(index.newest(), Supplier::get).read(logical, files, ReadSnapshot.of(files).orElseThrow());
    }
  }

  /** The newest snapshots of a query's tables, all at one version. */
  static final class NewestTables {
    private final String catalog;
    private final ClusterView view;
    private final TableLoader loader;
    private final FileIndexes indexes;
    private final Map<String, LoadedTable> known = new HashMap<>();

    NewestTables(String catalog, ClusterView view, TableLoader loader, FileIndexes indexes) {
      this.catalog = catalog;
      this.view = view;
      this.loader = loader;
      this.indexes = indexes;
    }

    /** The relation with the table's newest files, buckets and nodes. */
    LogicalRelation read(LogicalRelation analyzed, HadoopFsRelation files, ReadSnapshot read) {
      return FilesRelation.again(analyzed, files, known.computeIfAbsent(read.folder(), folder -> load(read)), indexes);
    }

    private LoadedTable load(ReadSnapshot read) {
      ColocatedTable object = view.table(read.namespace(), read.table())
          .orElseThrow(() -> gone(read, "dropped", "bring the table back (`colocation recover`), or end the stream"));
      if (!(object.namespace() + "/" + object.directory()).equals(read.folder())) {
        throw gone(read, "dropped and recreated", "start the stream again");
      }
      return loader.newest(view, object);
    }

    private RuntimeException gone(ReadSnapshot read, String how, String cure) {
      return new ColocationException("table " + catalog + "." + read.namespace() + "." + read.table() + " was " + how
          + " since the stream began; " + cure).unchecked();
    }
  }
}
