package dev.colocation.spark.write;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * What a compaction committed; all zero but {@code snapshotId} when there was nothing to do.
 *
 * @param partitions of which files were rewritten
 * @param filesBefore files that were merged
 * @param filesAfter what they became
 * @param rows in those files
 * @param bytes of the new files, one replica
 * @param snapshotId the table's newest snapshot; 0 = it holds no rows yet
 * @param replicasMissing copies of new files that the operator has yet to make
 */
public record CompactionResult(
    long partitions, @JsonProperty("files_before") long filesBefore, @JsonProperty("files_after") long filesAfter, long rows,
    long bytes, @JsonProperty("snapshot_id") long snapshotId, @JsonProperty("replicas_missing") int replicasMissing) {

  /** Of a table whose newest snapshot has nothing to merge. */
  public static CompactionResult nothing(long snapshotId) {
    return new CompactionResult(0, 0, 0, 0, 0, snapshotId, 0);
  }
}
