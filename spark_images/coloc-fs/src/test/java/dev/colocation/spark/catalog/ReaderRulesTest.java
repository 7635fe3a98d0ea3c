package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The rules that readers in Python and Java share, word for word: the cases of {@code tests/unit/spark/reader_rules.json}. */
final class ReaderRulesTest {
  private static final ObjectMapper JSON = new ObjectMapper();

  private static JsonNode rules() throws IOException {
    Path folder = Path.of("").toAbsolutePath();
    while (!Files.exists(folder.resolve("tests/unit/spark/reader_rules.json"))) {
      folder = folder.getParent();
    }
    return JSON.readTree(Files.readAllBytes(folder.resolve("tests/unit/spark/reader_rules.json")));
  }

  @TestFactory
  List<DynamicTest> howATableIsRead() throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode rule : rules().path("decisions")) {
      tests.add(dynamicTest(rule.path("id").asText(), () -> {
        JsonNode switches = rule.path("switches");
        JsonNode expected = rule.path("expected");
        ReadDecision decision = ReadDecision.decide(
            new ReadDecision.Switches(
                switches.path("join_disabled").asBoolean(), switches.path("colocate_when_unstable").asBoolean(),
                switches.path("degrade_reason").asText("")),
            rule.path("group").isNull() ? Optional.empty() : Optional.of(group(rule.path("group"))),
            rule.path("refusal").asText(""), rule.path("inconsistency").asText(""), rule.path("silence").asText(""));
        assertEquals(
            new ReadDecision(
                expected.path("bucketed").asBoolean(), expected.path("reason").asText(""),
                expected.path("note").asText("")),
            decision);
      }));
    }
    return tests;
  }

  @TestFactory
  List<DynamicTest> whetherAVerdictHolds() throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode rule : rules().path("freshness")) {
      tests.add(dynamicTest(rule.path("id").asText(), () -> assertEquals(
          rule.path("message").asText(),
          OperatorLife.judge(rule.path("renewTime").asText(), 20, Instant.parse(rule.path("now").asText()), "Lease x"))));
    }
    return tests;
  }

  private static GroupObject group(JsonNode status) {
    ObjectNode object = JSON.createObjectNode();
    object.putObject("metadata").put("namespace", "shop").put("name", "sales");
    object.putObject("spec").put("buckets", 8).put("replicas", 2).putArray("bucketKey").add("bigint");
    object.set("status", status);
    return GroupObject.parse(object);
  }
}
