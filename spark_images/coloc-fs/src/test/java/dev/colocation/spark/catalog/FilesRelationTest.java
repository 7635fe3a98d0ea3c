package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.Manifest;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.catalog.BucketSpec;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import scala.Option;

/** What Spark learns of a snapshot's files. */
class FilesRelationTest {
  private static Option<BucketSpec> bucketSpec(ReadDecision decision) {
    TableLayout layout = new TableLayout(
        List.of(new Manifest.Column("id", "bigint", true, "old_id"), new Manifest.Column("At", "timestamp", true, ""),
            new Manifest.Column("day", "string", true, "")),
        List.of("ID"), List.of("day"), List.of("DAY", "at", "Id"));
    LoadedTable table = new LoadedTable(
        "lake.shop.orders", null, Optional.empty(), new LoadedTable.Shape(layout, new Buckets(2, 4), Map.of()), Optional.empty(),
        Optional.empty(), decision, Map.of(), Optional.empty(), false);
    return FilesRelation.bucketSpec(table);
  }

  private static LoadedTable table(long snapshot, String typeOfValue, String... partitionedBy) {
    TableLayout layout = new TableLayout(
        List.of(column("k", "bigint"), column("v", typeOfValue), column("p", "int"), column("q", "int")), List.of("k"),
        List.of(partitionedBy), List.of());
    return new LoadedTable(
        "lake.shop.orders", null, Optional.of(new Snapshot(snapshot, "m", Instant.EPOCH, JsonNodeFactory.instance.objectNode())),
        new LoadedTable.Shape(layout, new Buckets(2, 4), Map.of()), Optional.empty(), Optional.empty(),
        new ReadDecision(true, "", ""), Map.of(), Optional.empty(), false);
  }

  private static Manifest.Column column(String name, String type) {
    return new Manifest.Column(name, type, true, "");
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', textBlock = """
      1 | bigint | p | snapshot 1 of table lake.shop.orders is not as the stream was analyzed: its column v is not INT; begin with a \
      later snapshot: startingVersion, and a new checkpoint
      9 | bigint | p | snapshot 9 of table lake.shop.orders is not as the stream was analyzed: its column v is not INT; start the \
      stream again, with its checkpoint
      1 | int | q | snapshot 1 of table lake.shop.orders is not as the stream was analyzed: its partition columns are (q) and not \
      (p); begin with a later snapshot: startingVersion, and a new checkpoint""")
  void aStreamsRowsHaveOneLayout(long snapshot, String type, String partitionedBy, String message) {
    LoadedTable analyzed = table(5, "int", "p");
    FilesRelation.requireColumns(table(snapshot, "int", "p"), analyzed);
    ColocationException error = assertThrows(
        ColocationException.class, () -> FilesRelation.requireColumns(table(snapshot, type, partitionedBy), analyzed));
    assertEquals(message, error.getMessage());
  }

  /** By the names that files have. */
  @Test
  void bucketsAreOfColumnsInFiles() {
    BucketSpec found = bucketSpec(new ReadDecision(true, "", "")).get();
    assertEquals(new BucketSpec(4, FilesRelation.sequence(List.of("old_id")), FilesRelation.sequence(List.of("At", "old_id"))), found);
    assertEquals(true, bucketSpec(ReadDecision.ordinary("not stable")).isEmpty());
  }
}
