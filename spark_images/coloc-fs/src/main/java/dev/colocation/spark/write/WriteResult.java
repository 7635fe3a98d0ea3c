package dev.colocation.spark.write;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * What a write did. A writer who wants to know gives the write an id ({@link WriteOptions#ID}) and asks for it afterwards.
 *
 * @param rows of this write, as {@code files}, {@code bytes} (one replica) and {@code partitions}; 0 of one that was committed before
 * @param snapshotId the table's new snapshot; the one that was there when nothing was committed, 0 = none
 * @param replicasMissing copies of new files that the operator has yet to make
 * @param substitutes the buckets whose copies are on other nodes meanwhile, and why
 * @param compaction what was merged right after, when the table asks for it; null = nothing
 * @param compactionFailure why that failed: the write is committed all the same
 */
@JsonInclude(JsonInclude.Include.ALWAYS)
public record WriteResult(
    long rows, long files, long bytes, long partitions, @JsonProperty("snapshot_id") long snapshotId,
    @JsonProperty("replicas_missing") int replicasMissing, List<Substitute> substitutes, Compaction.Result compaction,
    @JsonProperty("compaction_failure") String compactionFailure) {

  /** Results of this driver's last writes are kept for those who ask. */
  private static final int MAX_KEPT = 1000;

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, WriteResult> KEPT = Collections.synchronizedMap(new LinkedHashMap<>() {
    private static final long serialVersionUID = 1L;

    @Override
    protected boolean removeEldestEntry(Map.Entry<String, WriteResult> eldest) {
      return size() > MAX_KEPT;
    }
  });

  /** Of a write without rows, which changes nothing. */
  static WriteResult nothing(long snapshotId) {
    return new WriteResult(0, 0, 0, 0, snapshotId, 0, List.of(), null, "");
  }

  static WriteResult of(CommitResult committed, List<DataFile> files, Compaction.AfterWrite.Outcome compaction) {
    long partitions = committed.wasCommittedBefore() ? 0 : files.stream().map(DataFile::partition).distinct().count();
    return new WriteResult(
        committed.rows(), committed.files(), committed.bytes(), partitions, committed.snapshotId(),
        committed.replicasMissing(), committed.substitutes(), compaction.result(), compaction.failure());
  }

  void keep(String id) {
    KEPT.put(id, this);
  }

  /** The result of the write that was given this id; empty when this driver has forgotten it. */
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

  /**
   * Copies on other nodes than the map's, until the operator has made the map's.
   *
   * @param away the map's node that did not take them
   * @param node the one that did
   * @param files how many
   * @param reason why the map's node did not
   */
  public record Substitute(int bucket, String away, String node, int files, String reason) {}
}
