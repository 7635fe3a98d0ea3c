package dev.colocation.spark.plan;

import dev.colocation.spark.fs.ColocPath;
import dev.colocation.spark.fs.Settings;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.internal.SQLConf;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Scans of colocated tables have one file per task where Spark does not read bucket by bucket, so that those are local too:
 * tasks of several files would have files of several nodes. Scans of other tables of the application stay as they are.
 *
 * <p>How Spark packs files into tasks is a matter of the session that a relation was made in ({@code
 * FilePartition.maxSplitBytes}). So relations of ours are of a session that differs in how files are listed and packed only. It
 * is a new one and no clone, which would hold on to the session that it was cloned from: each session has one twin, which goes
 * with it.
 */
public final class FilePerTask extends Rule<LogicalPlan> {
  static final String OPEN_COST = "spark.sql.files.openCostInBytes";

  /**
   * Settings of a twin, whatever its session has. To open a file costs more than a task's files may have together ({@code
   * spark.sql.files.maxPartitionBytes}); files are listed on the driver, from the manifest, with their locations.
   */
  private static final Map<String, String> OWN =
      Map.of(OPEN_COST, "1g", "spark.sql.sources.useListFilesFileSystemList", ColocPath.SCHEME);

  private static final Map<SparkSession, SparkSession> TWINS = Collections.synchronizedMap(new WeakHashMap<>());
  private static final Set<SparkSession> ALL_TWINS =
      Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

  /** For relations that Spark itself has made of registered tables and of paths. */
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return UnknownSpark.orAsPlanned(plan, analyzed -> analyzed.resolveOperatorsUp(new Relations()));
  }

  /** The session of our relations, with all current settings of the query's session. */
  public static SparkSession session() {
    SparkSession session = SparkSession.active();
    if (ALL_TWINS.contains(session)) {
      return session;
    }
    SparkSession twin = TWINS.computeIfAbsent(session, FilePerTask::newTwin);
    follow(session.sessionState().conf(), twin.sessionState().conf());
    return twin;
  }

  private static SparkSession newTwin(SparkSession session) {
    SparkSession twin = session.newSession();
    ALL_TWINS.add(twin);
    return twin;
  }

  /** Settings change between queries. Only what differs is touched: queries that run meanwhile read the same settings. */
  private static synchronized void follow(SQLConf leading, SQLConf following) {
    Map<String, String> wanted = CollectionConverters.asJava(leading.getAllConfs());
    Map<String, String> found = CollectionConverters.asJava(following.getAllConfs());
    Set<String> gone = new HashSet<>(found.keySet());
    gone.removeAll(wanted.keySet());
    gone.removeAll(OWN.keySet());
    gone.forEach(following::unsetConf);
    Map<String, String> all = new HashMap<>(wanted);
    all.putAll(OWN);
    all.forEach((key, value) -> {
      if (!value.equals(found.get(key))) {
        following.setConfString(key, value);
      }
    });
  }

  private static final class Relations extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1L;

    /** An option, since Spark compares relations without their sessions, and would keep the one that there was. */
    private static final String MARK = "colocation.filepertask";

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return node instanceof LogicalRelation logical && logical.relation() instanceof HadoopFsRelation relation
          && ColocPath.isRootOf(relation) && !ALL_TWINS.contains(relation.sparkSession());
    }

    @Override
    @SuppressWarnings("unchecked") // Java does not see the element types of Scala's collections
    public LogicalPlan apply(LogicalPlan node) {
      LogicalRelation logical = (LogicalRelation) node;
      HadoopFsRelation relation = (HadoopFsRelation) logical.relation();
      scala.collection.immutable.Map<String, String> options =
          (scala.collection.immutable.Map<String, String>) relation.options().updated(MARK, "true");
      HadoopFsRelation ours = new HadoopFsRelation(
          relation.location(), relation.partitionSchema(), relation.dataSchema(), relation.bucketSpec(),
          relation.fileFormat(), options, session());
      return logical.copy(ours, logical.output(), logical.catalogTable(), logical.isStreaming(), logical.stream());
    }
  }
}
