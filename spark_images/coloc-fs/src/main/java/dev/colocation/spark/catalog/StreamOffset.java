package dev.colocation.spark.catalog;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.fs.Manifest;
import java.util.Optional;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * A stream's position in a table. Spark keeps it as JSON in the stream's checkpoint.
 *
 * <p>The end of a stream's first micro-batch also holds that batch's beginning: Spark keeps ends of batches only, and the newest
 * snapshot may be another one when a batch is run again.
 */
final class StreamOffset extends Offset {
  /** Instead of a number of files: all files of a snapshot. */
  static final long ALL = -1;

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String FOLDER = "table";
  private static final String BEGIN = "begin";
  private static final String SNAPSHOT = "snapshot";
  private static final String MANIFEST = "manifest";
  private static final String FILES = "files";
  private static final String WHOLE = "whole";

  /**
   * A place between two files of a table.
   *
   * @param snapshot id; 0 = before the first one
   * @param manifest its digest; another snapshot may have the same id after a restore of etcd
   * @param files how many of the snapshot's files are already read, in the order of their paths; {@link #ALL}
   * @param isWhole whether all files of the snapshot are read; else those that its commit appended
   */
  record Position(long snapshot, String manifest, long files, boolean isWhole) {
    static final Position BEFORE_ALL = new Position(0, Manifest.NOTHING, ALL, false);

    static Position after(Snapshot snapshot) {
      return new Position(snapshot.id(), snapshot.manifestSha256(), ALL, false);
    }

    private static Position of(JsonNode json) {
      return new Position(
          json.path(SNAPSHOT).asLong(), json.path(MANIFEST).asText(), json.path(FILES).asLong(), json.path(WHOLE).asBoolean());
    }

    private ObjectNode to(ObjectNode json) {
      return json.put(SNAPSHOT, snapshot).put(MANIFEST, manifest).put(FILES, files).put(WHOLE, isWhole);
    }
  }

  private final String folder;
  private final Optional<Position> begin;
  private final Optional<Position> end;

  private StreamOffset(String folder, Optional<Position> begin, Optional<Position> end) {
    this.folder = folder;
    this.begin = begin;
    this.end = end;
  }

  /** The beginning of a stream without a checkpoint, whose position is decided later. */
  static StreamOffset begin(String folder) {
    return new StreamOffset(folder, Optional.empty(), Optional.empty());
  }

  /** The end of a micro-batch. */
  StreamOffset to(Position begin, Position end) {
    return new StreamOffset(folder, this.end.isPresent() ? Optional.empty() : Optional.of(begin), Optional.of(end));
  }

  static StreamOffset parse(String text) {
    try {
      JsonNode json = JSON.readTree(text);
      return new StreamOffset(
          json.path(FOLDER).asText(), position(json.path(BEGIN)),
          json.has(SNAPSHOT) ? position(json) : Optional.empty());
    } catch (JsonProcessingException error) {
      throw new ColocationException("the checkpoint's offset is not one of a ColocatedTable: " + text, error).unchecked();
    }
  }

  static StreamOffset of(Offset offset) {
    return offset instanceof StreamOffset known ? known : parse(offset.json());
  }

  private static Optional<Position> position(JsonNode json) {
    return json.isObject() ? Optional.of(Position.of(json)) : Optional.empty();
  }

  /** The table's folder, {@code <namespace>/<table>-<uid8>}. */
  String folder() {
    return folder;
  }

  /** The beginning of the batch that ends here, if it was the stream's first one. */
  Optional<Position> firstBegin() {
    return begin;
  }

  /** Empty at the beginning. */
  Optional<Position> position() {
    return end;
  }

  @Override
  public String json() {
    ObjectNode json = JSON.createObjectNode().put(FOLDER, folder);
    begin.ifPresent(position -> position.to(json.putObject(BEGIN)));
    end.ifPresent(position -> position.to(json));
    return json.toString();
  }
}
