package dev.colocation.spark.write;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.RowCounts;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The result of a write. It can be read afterwards by the id that the write was given ({@link WriteOptions#ID}).
 *
 * @param rows written by this write, like {@code files}, {@code bytes} (one replica) and {@code partitions}; 0 when it was
 * committed before
 * @param snapshotId the table's new snapshot; the previous one when nothing was committed, 0 = none
 * @param replicasMissing copies of new files that the operator has yet to make
 * @param substitutes the buckets whose copies are on other nodes meanwhile, and why
 * @param compaction the compaction after the write, where the table enables it; null = none
 * @param compactionFailure why it failed; the write is still committed
 * @param rowsInserted by the commit, as its snapshot records it, like {@code rowsUpdated} and {@code rowsDeleted}; null = unknown
 * @param filesRemoved by the commit; null = unknown
 */
@JsonInclude(JsonInclude.Include.ALWAYS)
public record WriteResult(
    long rows, long files, long bytes, long partitions, @JsonProperty("snapshot_id") long snapshotId,
    @JsonProperty("replicas_missing") int replicasMissing, List<Substitute> substitutes, Compaction.Result compaction,
    @JsonProperty("compaction_failure") String compactionFailure, @JsonProperty("rows_inserted") Long rowsInserted,
    @JsonProperty("rows_updated") Long rowsUpdated, @JsonProperty("rows_deleted") Long rowsDeleted,
    @JsonProperty("files_removed") Long filesRemoved) {

  /** The number of results that this driver keeps. */
  private static final int MAX_KEPT = 1000;

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, WriteResult> KEPT = Collections.synchronizedMap(new LinkedHashMap<>() {
    private static final long serialVersionUID = 1L;

    @Override
    protected boolean removeEldestEntry(Map.Entry<String, WriteResult> eldest) {
      return size() > MAX_KEPT;
    }
  });

  /** The result of a write without rows, which changes nothing. */
  static WriteResult nothing(long snapshotId) {
    return new WriteResult(0, 0, 0, 0, snapshotId, 0, List.of(), null, "", 0L, 0L, 0L, 0L);
  }

  static WriteResult of(CommitResult committed, List<DataFile> files, Compaction.AfterWrite.Outcome compaction) {
    long partitions = committed.wasCommittedBefore() ? 0 : files.stream().map(DataFile::partition).distinct().count();
    Optional<RowCounts> rows = committed.changed().rows();
    OptionalLong removed = committed.changed().filesRemoved();
    return new WriteResult(
        committed.rows(), committed.files(), committed.bytes(), partitions, committed.snapshotId(),
        committed.replicasMissing(), committed.substitutes(), compaction.result(), compaction.failure(),
        rows.map(RowCounts::inserted).orElse(null), rows.map(RowCounts::updated).orElse(null),
        rows.map(RowCounts::deleted).orElse(null), removed.isPresent() ? removed.getAsLong() : null);
  }

  void keep(String id) {
    KEPT.put(id, this);
  }

  /** The result of the write that was given this id; empty when this driver no longer keeps it. */
  public static Optional<WriteResult> find(String id) {
    return Optional.ofNullable(KEPT.get(id));
  }

  public String toJson() {
    try {
      return JSON.writeValueAsString(this);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException("a record of numbers and texts is always JSON", error);
    }
  }
}
