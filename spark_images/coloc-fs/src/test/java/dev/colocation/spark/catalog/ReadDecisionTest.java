package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.ColocationGroup;
import dev.colocation.spark.cluster.Json;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** How a table is read, and why. */
final class ReadDecisionTest {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** The cases of {@code read-decisions.json}. */
  @TestFactory
  List<DynamicTest> howATableIsRead() throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode given : JSON.readTree(ReadDecisionTest.class.getResourceAsStream("/read-decisions.json"))) {
      tests.add(dynamicTest(given.path("name").asText(), () -> {
        JsonNode expected = given.path("expected");
        assertEquals(
            new ReadDecision(
                expected.path("bucketed").asBoolean(), expected.path("reason").asText(""), expected.path("note").asText("")),
            decide(given));
      }));
    }
    return tests;
  }

  private static ReadDecision decide(JsonNode given) {
    JsonNode switches = given.path("switches");
    return ReadDecision.decide(
        new ReadDecision.Switches(
            switches.path("join_disabled").asBoolean(), switches.path("bucketing_disabled").asBoolean(),
            ReadDecision.WhenUnstable.valueOf(switches.path("when_unstable").asText("live").toUpperCase(Locale.ROOT))),
        given.path("group").isNull() ? Optional.empty() : Optional.of(group(given.path("group"))),
        given.path("refusal").asText(""), given.path("inconsistency").asText(""), given.path("silence").asText(""),
        Set.copyOf(Json.texts(given.path("ready"))));
  }

  private static ColocationGroup group(JsonNode status) {
    ObjectNode object = JSON.createObjectNode();
    object.putObject("metadata").put("namespace", "shop").put("name", "sales");
    object.putObject("spec").put("buckets", 8).put("replicas", 2).putArray("bucketKey").add("bigint");
    object.set("status", status);
    return ColocationGroup.parse(object);
  }

  /** A remark goes behind the note of a bucketed read only. */
  @Test
  void bucketedReadsGetANote() {
    assertEquals(new ReadDecision(true, "", "a; b"), new ReadDecision(true, "", "a").noting("b"));
    assertEquals(new ReadDecision(true, "", "a"), new ReadDecision(true, "", "a").noting(""));
    assertEquals(new ReadDecision(true, "", "b"), new ReadDecision(true, "", "").noting("b"));
    assertEquals(new ReadDecision(false, "c", ""), new ReadDecision(false, "c", "").noting("b"));
  }
}
