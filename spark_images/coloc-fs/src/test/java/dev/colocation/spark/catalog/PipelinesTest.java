package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Names;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.Test;

/** Tables that the engine of Declarative Pipelines makes and alters. */
final class PipelinesTest {
  private static final Column[] STATE = {
      Column.create("K", DataTypes.LongType), Column.create("__spark_autocdc_metadata", DataTypes.StringType)};

  private static JsonNode json(String text) throws JsonProcessingException {
    return new ObjectMapper().readTree(text.replace('\'', '"'));
  }

  private static ColocatedTable target(String key) throws JsonProcessingException {
    return ColocatedTable.parse(json("{'metadata': {'namespace': 'shop', 'name': 'orders'}, 'spec': {'colocateWith': 'sales', 'buckets': "
        + "16, 'comment': 'all', 'partitionedBy': ['dt'], 'sortedBy': ['k', 's'], 'bucketedBy': ['" + key + "']}}"));
  }

  @Test
  void aTableOfStateHasItsTargetsBuckets() throws JsonProcessingException {
    assertEquals(Map.of("colocate_with", "sales", "clustered_by", "k", "buckets", "16", "provider", "parquet"),
        Pipelines.propertiesOfState(target("k"), STATE, Map.of("provider", "parquet")));
    ColocatedTable other = target("v");
    ColocationException error =
        assertThrows(ColocationException.class, () -> Pipelines.propertiesOfState(other, STATE, Map.of()));
    assertEquals("not possible for a ColocatedTable: the keys of Auto CDC into shop.orders lack its bucket key (v), by which rows are "
        + "found: add it to keys, or give 'clustered_by' of these", error.getMessage());
  }

  @Test
  void aTableOfStateIsKnownByItsName() {
    String state = "__spark_autocdc_aux_state_Line_Items";
    String[] shop = {"shop"};
    assertEquals(Optional.of(Identifier.of(shop, "Line_Items")), Pipelines.targetOf(Identifier.of(shop, state)));
    assertEquals(Optional.empty(), Pipelines.targetOf(Identifier.of(shop, "aux_state_orders")));
    assertEquals("spark-autocdc-aux-state-line-items", Names.ofSql(state));
    assertTrue(Names.isObject(Names.ofSql(state)));
    assertFalse(Names.isObject(Names.ofSql("__orders")));
  }

  @Test
  void propertiesOfTheEngineAreAnnotations() throws JsonProcessingException {
    assertEquals(Map.of("colocation.dev/pipelines.autocdc.scdType", "SCD1"),
        Pipelines.annotations(Map.of("pipelines.autocdc.scdType", "SCD1", "colocate_with", "sales")));
    TableChange other = TableChange.setProperty("comment", "x");
    TableChange[] changes = {TableChange.setProperty("pipelines.a", "1"), TableChange.removeProperty("pipelines.b"), other};
    assertEquals("{colocation.dev/pipelines.a=1, colocation.dev/pipelines.b=null}", Pipelines.annotations(changes).toString());
    assertEquals(other, Pipelines.withoutOwn(changes)[0]);
    assertEquals(Map.of("pipelines.a", "1"), ColocatedTable.parse(json("{'metadata': {'annotations': {'colocation.dev/pipelines.a': '1', "
        + "'colocation.dev/request': 'r'}}}")).pipelineProperties());
    assertFalse(Pipelines.areAsking());
  }
}
