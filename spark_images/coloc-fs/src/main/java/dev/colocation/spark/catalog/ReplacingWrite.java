package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.Names;
import dev.colocation.spark.write.FileReplacement;
import dev.colocation.spark.write.WriteOptions;
import dev.colocation.spark.write.WriteResult;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;

/** Writes files that replace committed ones, with rows that stay where they are: of a compaction, or of a change of rows. */
final class ReplacingWrite {
  /** Settings of the queries' session: plain scans keep their buckets, and branches of a union stay tasks of their own. */
  private static final Map<String, String> SETTINGS = Map.of(
      "spark.sql.sources.bucketing.autoBucketedScan.enabled", "false", "spark.sql.unionOutputPartitioning", "false");

  private ReplacingWrite() {}

  /** A session whose writes leave rows where they are. */
  static SparkSession newSession(SparkSession given) {
    SparkSession session = given.cloneSession();
    SETTINGS.forEach(session.sessionState().conf()::setConfString);
    return session;
  }

  /** The rows of all branches, each in tasks of its own. There is at least one branch. */
  static LogicalPlan together(List<LogicalPlan> branches) {
    return branches.size() == 1 ? branches.get(0) : new Union(FilesRelation.sequence(branches), false, false);
  }

  /** Writes the rows of a query, in one commit, as the replacement has it. */
  static WriteResult run(SparkSession session, LogicalPlan rows, LoadedTable table, FileReplacement replacement)
      throws NoSuchTableException {
    String name = Names.quoted(table.catalog(), Identifier.of(new String[] {table.object().namespace()}, table.object().name()));
    String id = FileReplacement.Running.begin(replacement);
    try {
      Dataset.ofRows(session, rows).writeTo(name).option(WriteOptions.REPLACEMENT, id).option(WriteOptions.ID, id).append();
    } finally {
      FileReplacement.Running.end(id);
    }
    return WriteResult.find(id).orElseThrow();
  }
}
