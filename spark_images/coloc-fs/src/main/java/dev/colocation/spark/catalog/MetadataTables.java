package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import dev.colocation.spark.fs.ManifestStore;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.StructType;

/** {@code <table>.snapshots}, {@code <table>.files} and {@code <table>.replicas}. */
final class MetadataTables {
  private static final StructType SNAPSHOTS = StructType.fromDDL(
      "snapshot_id BIGINT, committed_at TIMESTAMP, is_current BOOLEAN, partitions BIGINT, files BIGINT, rows BIGINT, "
          + "bytes BIGINT, manifest STRING");
  private static final StructType FILES = StructType.fromDDL(
      "path STRING, bucket INT, partition MAP<STRING, STRING>, rows BIGINT, bytes BIGINT, sha256 STRING");
  private static final StructType REPLICAS = StructType.fromDDL(
      "bucket INT, node STRING, state STRING, agent STRING, files BIGINT, bytes BIGINT");

  private MetadataTables() {}

  /** The metadata table of this name; empty when there is none. */
  static Optional<MetadataTable> find(LoadedTable table, String name) {
    String fullName = table.name() + "." + name;
    return switch (name) {
      case "snapshots" -> Optional.of(new MetadataTable(fullName, SNAPSHOTS, () -> snapshots(table)));
      case "files" -> Optional.of(new MetadataTable(fullName, FILES, () -> files(table)));
      case "replicas" -> Optional.of(new MetadataTable(fullName, REPLICAS, () -> replicas(table)));
      default -> Optional.empty();
    };
  }

  private static List<Row> snapshots(LoadedTable table) {
    return table.object().snapshots().stream()
        .map(snapshot -> row(
            snapshot.id(), snapshot.time(),
            table.snapshot().equals(Optional.of(snapshot)), snapshot.partitions(), snapshot.files(), snapshot.rows(),
            snapshot.bytes(), "sha256:" + snapshot.manifest()))
        .toList();
  }

  private static List<Row> files(LoadedTable table) {
    List<Row> rows = new ArrayList<>();
    for (JsonNode file : manifest(table).path("files")) {
      Map<String, String> partition = new LinkedHashMap<>();
      file.path("partition").properties().forEach(value -> partition.put(
          value.getKey(), value.getValue().isNull() ? null : value.getValue().asText()));
      rows.add(row(
          file.path("path").asText(), file.path("bucket").asInt(), partition,
          file.path("rows").asLong(), file.path("bytes").asLong(), file.path("sha256").asText()));
    }
    return rows;
  }

  private static List<Row> replicas(LoadedTable table) {
    if (table.group().isEmpty()) {
      return List.of();
    }
    Moment.Group group = table.group().get();
    Map<Integer, long[]> sizes = new LinkedHashMap<>();
    for (JsonNode file : manifest(table).path("files")) {
      long[] size = sizes.computeIfAbsent(file.path("bucket").asInt(), absent -> new long[2]);
      size[0]++;
      size[1] += file.path("bytes").asLong();
    }
    List<Row> rows = new ArrayList<>();
    for (int bucket = 0; bucket < group.object().buckets().size(); bucket++) {
      long[] size = sizes.getOrDefault(bucket, new long[2]);
      for (String node : group.object().buckets().get(bucket)) {
        rows.add(row(
            bucket, node, group.object().state(bucket, node).orElse(null), group.agents().get(node), size[0],
            size[1]));
      }
    }
    return rows;
  }

  private static JsonNode manifest(LoadedTable table) {
    try {
      return ManifestStore.text(new Path(table.location()), TableLoader.configuration(table.fileSystem()));
    } catch (IOException error) {
      throw new ColocationException(error.getMessage(), error).unchecked();
    }
  }

  private static Row row(Object... values) {
    return RowFactory.create(values);
  }
}
