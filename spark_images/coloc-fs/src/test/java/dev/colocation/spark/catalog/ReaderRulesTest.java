package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.GroupObject;
import dev.colocation.spark.cluster.OperatorLife;
import dev.colocation.spark.cluster.TypeNames;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** The rules that readers in Python and Java share, word for word: the cases of {@code tests/unit/spark/reader_rules.json}. */
final class ReaderRulesTest {
  private static final ObjectMapper JSON = new ObjectMapper();

  private static JsonNode rules() throws IOException {
    return shared("tests/unit/spark/reader_rules.json");
  }

  private static JsonNode shared(String path) throws IOException {
    Path folder = Path.of("").toAbsolutePath();
    while (!Files.exists(folder.resolve(path))) {
      folder = folder.getParent();
    }
    return JSON.readTree(Files.readAllBytes(folder.resolve(path)));
  }

  /** {@code model/spark_types.py} has the same cases. */
  @Test
  void namesOfTypesArePythons() throws IOException {
    JsonNode names = shared("tests/unit/model/type_names.json");
    assertEquals(GroupObject.texts(names.path("simple")), TypeNames.SIMPLE);
    names.path("canonical").properties().forEach(name -> {
      assertEquals(!name.getValue().isNull(), TypeNames.isKnown(name.getKey()), name.getKey());
      if (!name.getValue().isNull()) {
        assertEquals(name.getValue().asText(), TypeNames.canonical(name.getKey()));
      }
    });
    names.path("tooWide").forEach(name -> assertFalse(TypeNames.isKnown(name.asText()), name.asText()));
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
                switches.path("join_disabled").asBoolean(), switches.path("bucketing_disabled").asBoolean(),
                ReadDecision.WhenUnstable.valueOf(
                    switches.path("when_unstable").asText("live").toUpperCase(Locale.ROOT))),
            rule.path("group").isNull() ? Optional.empty() : Optional.of(group(rule.path("group"))),
            rule.path("refusal").asText(""), rule.path("inconsistency").asText(""), rule.path("silence").asText(""),
            Set.copyOf(GroupObject.texts(rule.path("ready"))));
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
  List<DynamicTest> howManyCoresAnApplicationHas() throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode rule : rules().path("cores")) {
      tests.add(dynamicTest(rule.path("id").asText(), () -> assertEquals(
          rule.path("cores").asInt(),
          Parallelism.configuredCores(key -> rule.path("conf").path(key).asText("")))));
    }
    return tests;
  }

  @TestFactory
  List<DynamicTest> aGroupWithFewerBucketsThanCores() throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode rule : rules().path("fewBuckets")) {
      tests.add(dynamicTest(rule.path("id").asText(), () -> {
        String note = Parallelism.fewBuckets(
            rule.path("group").asText(), rule.path("buckets").asInt(), rule.path("cores").asInt());
        assertEquals(rule.path("note").asText(), note);
        String both = note.isEmpty() ? "a" : "a; " + note;
        assertEquals(new ReadDecision(true, "", both), new ReadDecision(true, "", "a").noting(note));
        assertEquals(new ReadDecision(true, "", note), new ReadDecision(true, "", "").noting(note));
        assertEquals(new ReadDecision(false, "b", ""), new ReadDecision(false, "b", "").noting(note));
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
