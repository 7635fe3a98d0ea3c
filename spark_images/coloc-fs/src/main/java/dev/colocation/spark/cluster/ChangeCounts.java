package dev.colocation.spark.cluster;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * How many rows and files a commit changed, as far as its snapshot records it: earlier releases recorded nothing, and cluster
 * definitions of earlier releases drop it.
 *
 * @param rows empty when unknown, as for a roll-back: files may have come back with other rows, or the same
 * @param filesAdded of one replica, like {@code filesRemoved}
 */
public record ChangeCounts(Optional<RowCounts> rows, OptionalLong filesAdded, OptionalLong filesRemoved) {
  public static final ChangeCounts UNKNOWN = new ChangeCounts(Optional.empty(), OptionalLong.empty(), OptionalLong.empty());

  private static final String INSERTED = "rowsInserted";
  private static final String UPDATED = "rowsUpdated";
  private static final String DELETED = "rowsDeleted";
  private static final String ADDED = "filesAdded";
  private static final String REMOVED = "filesRemoved";
  /** Optional fields of a snapshot in a table's status; the same as in {@code model/table.py}. */
  static final List<String> FIELDS = List.of(INSERTED, UPDATED, DELETED, ADDED, REMOVED);

  /** The counts of a snapshot in a status. */
  static ChangeCounts of(JsonNode snapshot) {
    boolean isKnown = List.of(INSERTED, UPDATED, DELETED).stream().noneMatch(name -> Json.isAbsent(snapshot.path(name)));
    return new ChangeCounts(
        isKnown ? Optional.of(new RowCounts(snapshot.path(INSERTED).asLong(), snapshot.path(UPDATED).asLong(),
            snapshot.path(DELETED).asLong())) : Optional.empty(),
        count(snapshot.path(ADDED)), count(snapshot.path(REMOVED)));
  }

  private static OptionalLong count(JsonNode node) {
    return Json.isAbsent(node) ? OptionalLong.empty() : OptionalLong.of(node.asLong());
  }

  /** Adds the known counts to a snapshot. */
  public void write(ObjectNode snapshot) {
    rows.ifPresent(known -> snapshot.put(INSERTED, known.inserted()).put(UPDATED, known.updated()).put(DELETED, known.deleted()));
    filesAdded.ifPresent(known -> snapshot.put(ADDED, known));
    filesRemoved.ifPresent(known -> snapshot.put(REMOVED, known));
  }
}
