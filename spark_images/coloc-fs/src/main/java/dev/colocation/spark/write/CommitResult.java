package dev.colocation.spark.write;

import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import java.util.List;

/**
 * What a commit did.
 *
 * @param snapshotId the table's new snapshot; of one that was committed before, that one
 * @param rows that this commit added, as {@code files} and {@code bytes}: 0 when it was committed before
 * @param bytes of one replica
 * @param replicasMissing copies of new files that the operator has yet to make
 * @param substitutes where copies lie meanwhile
 * @param removed the committed files that went, as far as the change had to know them; none of an overwrite of everything
 * @param manifestSha256 of the snapshot; empty when it was committed before, and the table does not list it any more
 * @param wasCommittedBefore whether the table had it already, by its {@link CommitKey}; then nothing was changed
 */
public record CommitResult(
    long snapshotId, long rows, long files, long bytes, int replicasMissing, List<Substitute> substitutes,
    List<DataFile> removed, String manifestSha256, boolean wasCommittedBefore) {}
