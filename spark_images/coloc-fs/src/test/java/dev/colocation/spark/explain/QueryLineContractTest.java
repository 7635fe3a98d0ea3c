package dev.colocation.spark.explain;

import com.fasterxml.jackson.databind.JsonNode;
import dev.colocation.spark.Contract;
import dev.colocation.spark.cluster.Json;
import dev.colocation.spark.explain.RecentQueries.Query;
import dev.colocation.spark.explain.RecentQueries.Verdict;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The lines that {@code colocation ui} finds in a driver's log. */
public final class QueryLineContractTest {
  public static final Map<String, Contract.Rule> RULES = Map.of("query-lines", given -> QueryLine.of(query(given.path("query"))));

  @TestFactory
  List<DynamicTest> rules() throws IOException {
    return Contract.tests(RULES);
  }

  private static Query query(JsonNode given) {
    List<Verdict> verdicts = new ArrayList<>();
    given.path("verdicts").forEach(one -> verdicts.add(new Verdict(one.path("colocate").asBoolean(), one.path("text").asText())));
    return new Query(given.path("execution").asLong(), "SELECT 'a secret'", Instant.parse(given.path("endedAt").asText()),
        Duration.ofMillis(given.path("millis").asLong()), Json.texts(given.path("tables")), verdicts);
  }
}
