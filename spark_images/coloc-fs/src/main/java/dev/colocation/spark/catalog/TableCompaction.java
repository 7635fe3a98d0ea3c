package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.plan.MergeMemory;
import dev.colocation.spark.write.Compaction;
import dev.colocation.spark.write.Transaction;
import dev.colocation.spark.write.WriteResult;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Merges the sorted files of a bucket and partition into one, or several that follow each other, without changing rows. It reads only files of buckets with too many.
 * The tasks of a bucket's files are its own, on a node that has them: rows are not shuffled, and not sorted either, unless a bucket
 * has more files than can be read side by side.
 *
 * <p>Loads may go on meanwhile: appended files stay next to the merged ones; after an overwrite of the files that it read, the
 * compaction fails.
 */
final class TableCompaction {
  private TableCompaction() {}

  /**
   * Merges the files of each bucket and partition that has too many.
   *
   * @param table at its newest snapshot
   * @param mostFiles how many files that overlap may stay, and how many small ones
   * @param partitions the partitions to compact, by stored names of columns; none = all
   */
  static Compaction.Result run(ColocationTable table, int mostFiles, List<Map<String, String>> partitions) throws Exception {
    LoadedTable loaded = table.loaded();
    if (loaded.snapshot().isEmpty()) {
      return Compaction.Result.nothing(0);
    }
    Transaction transaction = table.target().begin();
    Compaction.Rule rule = Compaction.Rule.of(mostFiles, loaded.layout().sortedInFiles().size());
    Compaction crowded =
        Compaction.of(transaction.files(loaded.snapshot().get().manifestSha256()), rule, partitions);
    if (crowded.isEmpty()) {
      return Compaction.Result.nothing(loaded.snapshot().get().id());
    }
    SparkSession session = newSession();
    return result(crowded, ReplacingWrite.run(session, rows(session, loaded, rule, crowded), loaded, crowded));
  }

  /** A session for rows that are written again. Texts that exceed their varchar(n) stay: they were loaded before lengths were checked. */
  static SparkSession newSession() {
    SparkSession session = ReplacingWrite.newSession(SparkSession.active());
    session.sessionState().conf().setConfString("spark.sql.legacy.charVarcharAsString", "true");
    return session;
  }

  /**
   * A union of scans, each with a task per bucket: of as many parts of the partitions as keep all cores busy, and in each part of
   * the buckets whose files are merged, and of those that have too many files for that and are sorted.
   */
  private static LogicalPlan rows(SparkSession session, LoadedTable table, Compaction.Rule rule, Compaction crowded) {
    long mostBytes = MergeMemory.mostBytes(session.sparkContext().getConf());
    return ReplacingWrite.together(crowded.parts(parts(session, table.shape().buckets().ofTable())).stream()
        .flatMap(part -> part.tablets().stream().collect(Collectors.groupingBy(
            files -> MergeMemory.fits(
                rule.sorted().chains(files), file -> MergeMemory.heldBytes(file.bytes(), file.keys()), mostBytes),
            Collectors.flatMapping(List::stream, Collectors.toList()))).values().stream())
        .map(files -> FilesRelation.some(table, files.stream().map(table::path).toList())).toList());
  }

  private static int parts(SparkSession session, int buckets) {
    int cores = Integer.parseInt(session.sessionState().conf().getConfString(
        "spark.sql.leafNodeDefaultParallelism", String.valueOf(session.sparkContext().defaultParallelism())));
    return (cores + buckets - 1) / buckets;
  }

  private static Compaction.Result result(Compaction crowded, WriteResult done) {
    long partitions = crowded.files().stream().map(DataFile::partition).distinct().count();
    return new Compaction.Result(
        partitions, crowded.files().size(), done.files(), done.rows(), done.bytes(), done.snapshotId(), done.replicasMissing());
  }
}
