package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.Contract;
import dev.colocation.spark.catalog.ReadDecision.Liveness;
import dev.colocation.spark.catalog.ReadDecision.Parallelism;
import dev.colocation.spark.cluster.ColocationGroup;
import dev.colocation.spark.cluster.Json;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** What readers and procedures decide, as Python does. */
public final class ReaderContractTest {
  public static final Map<String, Contract.Rule> RULES = Map.of(
      "liveness", given -> liveness(Liveness.of(
          group(given.path("status")), Set.copyOf(Json.texts(given.path("ready"))))),
      "configured-cores", given -> Parallelism.configuredCores(key -> given.path("conf").path(key).asText("")),
      "few-buckets", given -> Parallelism.fewBuckets(
          given.path("group").asText(), given.path("buckets").asInt(), given.path("cores").asInt()),
      "new-buckets", given -> TableRebucketing.requireMultiple(
          "shop.orders", given.path("group").asInt(), given.path("buckets").asInt()),
      "partition-columns", given -> Procedures.partitionColumn(
          given.path("column").asText(), Json.texts(given.path("partitionedBy"))));

  @TestFactory
  List<DynamicTest> rules() throws IOException {
    return Contract.tests(RULES);
  }

  private static Map<String, Object> liveness(Liveness found) {
    return Map.of("isWhole", found.isWhole(), "message", found.message());
  }

  private static ColocationGroup group(JsonNode status) {
    ObjectNode object = Contract.JSON.createObjectNode();
    object.putObject("metadata").put("namespace", "shop").put("name", "sales");
    object.putObject("spec").put("buckets", 8).put("replicas", 2).putArray("bucketKey").add("bigint");
    object.set("status", status);
    return ColocationGroup.parse(object);
  }
}
