package dev.colocation.spark.write;

import dev.colocation.spark.fs.Manifest;
import java.util.Optional;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;

/**
 * Which snapshot of a table a relation reads. After a restore of etcd another snapshot may have the same id, and another manifest.
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

  /** The snapshot of a relation; empty for files that are of no table of ours. */
  public static Optional<ReadSnapshot> of(HadoopFsRelation relation) {
    String[] parts = relation.options().getOrElse(OPTION, () -> "").split(" ");
    return parts.length == PARTS
        ? Optional.of(new ReadSnapshot(parts[0], Long.parseLong(parts[1]), parts[2], parts[3].equals(PINNED))) : Optional.empty();
  }

  public String namespace() {
    return folder.substring(0, folder.indexOf('/'));
  }

  /** The table's name, which its folder's ends with a part of the uid. */
  public String table() {
    return folder.substring(folder.indexOf('/') + 1, folder.lastIndexOf('-'));
  }
}
