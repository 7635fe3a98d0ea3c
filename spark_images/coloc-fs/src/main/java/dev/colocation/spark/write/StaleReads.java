package dev.colocation.spark.write;

import dev.colocation.spark.cluster.WriteException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A statement that replaces rows of a table which it reads, too. A DataFrame that was made before, and {@code REPLACE TABLE …
 * AS}, which begins after its query was analyzed, may have read an older snapshot than the one that they replace: rows that
 * were committed between the two would be lost.
 */
final class StaleReads {
  private StaleReads() {}

  /**
   * Refuses a query that read the target when it was older, also when it, or a part of it, is cached by now. Older snapshots
   * that were asked for are no mistake.
   *
   * @throws WriteException.LoadConflict (unchecked) saying which snapshot was read, and which one is the newest
   */
  static void refuse(LogicalPlan query, WriteTarget target) {
    if (query instanceof LogicalRelation relation && relation.relation() instanceof HadoopFsRelation files) {
      ReadSnapshot.of(files).filter(read -> !read.isPinned() && read.folder().equals(target.folder()))
          .filter(read -> read.id() != target.snapshotId() || !read.manifest().equals(target.manifestSha256()))
          .ifPresent(read -> {
            throw new WriteException.LoadConflict("table " + target.namespace() + "." + target.table()
                + " was read as of snapshot " + read.id() + ", and by now it has snapshot " + target.snapshotId()
                + ", whose rows would be lost. Nothing was changed; start it again");
          });
    }
    if (query instanceof InMemoryRelation cached) {
      refuse(cached.cacheBuilder().logicalPlan(), target);
    }
    CollectionConverters.asJava(query.children()).forEach(child -> refuse(child, target));
    CollectionConverters.asJava(query.subqueries()).forEach(subquery -> refuse(subquery, target));
  }
}
