package dev.colocation.spark.cluster;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.WriteException.InvalidOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Identifies a commit, so that a repetition is recognized: a table takes each version of a writer once.
 *
 * @param writer a streaming query's id, or a user's key; 1 to 128 characters
 * @param version counts up with each commit of the writer, such as a stream's epoch; 0 for a key of one commit
 */
public record CommitKey(String writer, long version) {
  /** Keeps a table's status small. */
  public static final int MAX_WRITER_CHARACTERS = 128;

  public CommitKey {
    int characters = writer.codePointCount(0, writer.length());
    if (characters < 1 || characters > MAX_WRITER_CHARACTERS) {
      throw new InvalidOption("the writer of a commit has " + characters + " characters; allowed: 1 to "
          + MAX_WRITER_CHARACTERS);
    }
    if (version < 0 || version > Json.MAX_EXACT) {
      throw new InvalidOption("version " + version + " of writer " + writer + "; allowed: 0 to " + Json.MAX_EXACT);
    }
  }

  /**
   * An entry of {@code status.commits}: the newest version of a writer that the table has committed, and its snapshot.
   *
   * @param json the record in the status, with fields that later versions added
   */
  public record CommitRecord(String writer, long version, long snapshotId, ObjectNode json) {
    /** The same as {@code MAX_RECORDED_COMMITS} of {@code model/table.py}. */
    static final int MAX_RECORDS = 100;

    /** What is wrong with an object; empty when it is a record. */
    static Optional<String> problem(JsonNode node, String where) {
      if (!node.isObject()) {
        return Optional.of(where + " is " + Json.shown(node) + "; allowed: an object");
      }
      String writer = Json.text(node.path("writer"));
      if (writer.isEmpty() || writer.codePointCount(0, writer.length()) > CommitKey.MAX_WRITER_CHARACTERS) {
        return Optional.of(where + ".writer is " + Json.shown(node.path("writer")) + "; allowed: 1 to "
            + CommitKey.MAX_WRITER_CHARACTERS + " characters");
      }
      for (String name : List.of("version", "snapshotId")) {
        if (!Json.isCount(node.path(name))) {
          return Optional.of(where + "." + name + " is " + Json.shown(node.path(name)) + "; allowed: 0 to "
              + Json.MAX_EXACT);
        }
      }
      return Optional.empty();
    }

    /** Reads an object without a {@link #problem}. */
    public static CommitRecord of(JsonNode node) {
      return new CommitRecord(
          node.path("writer").asText(), node.path("version").asLong(), node.path("snapshotId").asLong(), (ObjectNode) node);
    }

    /** The record of a new commit. */
    public static CommitRecord of(CommitKey key, long snapshotId) {
      return of(JsonNodeFactory.instance.objectNode()
          .put("writer", key.writer()).put("version", key.version()).put("snapshotId", snapshotId));
    }

    /** The records after a commit, the newest first: one per writer, at most {@link #MAX_RECORDS}. */
    public static List<CommitRecord> with(CommitRecord newest, List<CommitRecord> before) {
      List<CommitRecord> kept = new ArrayList<>(List.of(newest));
      before.stream().filter(record -> !record.writer().equals(newest.writer())).limit(MAX_RECORDS - 1L).forEach(kept::add);
      return List.copyOf(kept);
    }

    /** The record of this key, or of a later version of its writer. */
    public static Optional<CommitRecord> find(List<CommitRecord> records, CommitKey key) {
      return records.stream()
          .filter(record -> record.writer().equals(key.writer()) && record.version() >= key.version()).findFirst();
    }
  }
}
