package dev.colocation.spark.cluster;

import com.fasterxml.jackson.databind.JsonNode;
import dev.colocation.spark.Contract;
import java.io.IOException;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** What objects of the API server mean, as in Python. */
public final class ClusterContractTest {
  public static final Map<String, Contract.Rule> RULES = Map.of(
      "types", ClusterContractTest::type,
      "freshness", given -> SignOfLife.judge(
          given.path("renewTime").asText(), given.path("validSeconds").asDouble(), Instant.parse(given.path("now").asText()),
          "Lease x"));

  @TestFactory
  List<DynamicTest> rules() throws IOException {
    return Contract.tests(RULES);
  }

  private static String type(JsonNode given) {
    String name = given.path("type").asText();
    if (!TypeNames.isKnown(name)) {
      throw new IllegalArgumentException(given.path("error").asText());
    }
    return TypeNames.canonical(name);
  }
}
