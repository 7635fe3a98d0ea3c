package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.fs.ManifestStore;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.types.DataType;
import scala.Option;

/** The partitions of a table's snapshot, from the files in its manifest. */
final class TablePartitions {
  private TablePartitions() {}

  /** A partition with rows; {@code partition}: texts of its columns, null = NULL; {@code bytes} of one replica. */
  record Found(Map<String, String> partition, long files, long rows, long bytes) {
    private Found and(Found other) {
      return new Found(partition, files + other.files, rows + other.rows, bytes + other.bytes);
    }

    /** A column's value in Spark's internal form. */
    Object value(String column, DataType type) {
      String text = partition.entrySet().stream().filter(value -> value.getKey().equalsIgnoreCase(column))
          .map(Map.Entry::getValue).filter(Objects::nonNull).findFirst().orElse(null);
      return text == null ? null
          : Cast$.MODULE$.apply(Literal$.MODULE$.apply(text), type, Option.apply("UTC"), true).eval(InternalRow.empty());
    }
  }

  /** None before the first load; one without columns where the table has no partitions. */
  static List<Found> of(LoadedTable table) {
    Map<Map<String, String>, Found> found = new LinkedHashMap<>();
    for (JsonNode file : manifest(table).path("files")) {
      Map<String, String> partition = partition(file);
      found.merge(
          partition, new Found(partition, 1, file.path("rows").asLong(), file.path("bytes").asLong()), Found::and);
    }
    return List.copyOf(found.values());
  }

  /** A file's partition. */
  static Map<String, String> partition(JsonNode file) {
    Map<String, String> partition = new LinkedHashMap<>();
    file.path("partition").properties().forEach(value -> partition.put(
        value.getKey(), value.getValue().isNull() ? null : value.getValue().asText()));
    return partition;
  }

  static JsonNode manifest(LoadedTable table) {
    table.requireReadable();
    try {
      return ManifestStore.text(new Path(table.location()), TableLoader.configuration(table.fileSystem()));
    } catch (IOException error) {
      throw new ColocationException(error.getMessage(), error).unchecked();
    }
  }
}
