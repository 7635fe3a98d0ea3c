package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.Manifest;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.catalog.BucketSpec;
import org.junit.jupiter.api.Test;
import scala.Option;

/** Spark learns of buckets and their order by the names that files have. */
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

  @Test
  void bucketsAreOfColumnsInFiles() {
    BucketSpec found = bucketSpec(new ReadDecision(true, "", "")).get();
    assertEquals(new BucketSpec(4, FilesRelation.sequence(List.of("old_id")), FilesRelation.sequence(List.of("At", "old_id"))), found);
    assertEquals(true, bucketSpec(ReadDecision.ordinary("not stable")).isEmpty());
  }
}
