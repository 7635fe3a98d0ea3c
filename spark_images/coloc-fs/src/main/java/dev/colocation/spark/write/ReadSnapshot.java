package dev.colocation.spark.write;

import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.fs.Manifest;
import java.util.Optional;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The snapshot of a table that a relation reads. After a restore of etcd another snapshot may have the same id, and another
 * manifest.
 *
 * @param folder of the table, {@code <namespace>/<table>-<uid8>}
 * @param id 0 = before the first load
 * @param manifest its digest, or {@link Manifest#NOTHING}
 * @param isPinned whether the query asked for this snapshot; else for the newest one
 */
public record ReadSnapshot(String folder, long id, String manifest, boolean isPinned) {
  /** Option of the relation. */
  public static final String OPTION = "colocation.snapshot";

  private static final String PINNED = "pinned";
  private static final String NEWEST = "newest";
  private static final int PARTS = 4;

  public String asOption() {
    return String.join(" ", folder, String.valueOf(id), manifest, isPinned ? PINNED : NEWEST);
  }

  /** The snapshot of a relation; empty for files of other tables. */
  public static Optional<ReadSnapshot> of(HadoopFsRelation relation) {
    String[] parts = relation.options().getOrElse(OPTION, () -> "").split(" ");
    return parts.length == PARTS
        ? Optional.of(new ReadSnapshot(parts[0], Long.parseLong(parts[1]), parts[2], parts[3].equals(PINNED))) : Optional.empty();
  }

  public String namespace() {
    return folder.substring(0, folder.indexOf('/'));
  }

  /** The table's name; the folder's name adds a part of the uid. */
  public String table() {
    return folder.substring(folder.indexOf('/') + 1, folder.lastIndexOf('-'));
  }

  /**
   * Statements that replace rows of a table which they also read. An earlier DataFrame, and {@code REPLACE TABLE …
   * AS}, which begins after its query was analyzed, may have read an older snapshot than the one that they replace; rows
   * committed between the two would be lost.
   */
  static final class StaleReads {
    private StaleReads() {}

    /**
     * Refuses a query that has read an older snapshot of the target, also when the query, or a part of it, is cached. A query may
     * name an older snapshot on purpose.
     *
     * @throws WriteException.LoadConflict (unchecked) with the snapshot that was read, and the newest one
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
}
