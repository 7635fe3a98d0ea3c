package dev.colocation.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.github.luben.zstd.Zstd;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;

/** The cases of {@code tests/contract}: one file for each rule that Python states, too. */
public final class Contract {
  public static final ObjectMapper JSON = new ObjectMapper();

  /** What Java makes of a case. */
  public interface Rule {
    /** A value that can be written as JSON; an exception where the rule refuses the case. */
    Object of(JsonNode given) throws Exception;
  }

  private Contract() {}

  private static Path folder() {
    Path above = Path.of("").toAbsolutePath();
    while (!Files.isDirectory(above.resolve("tests/contract"))) {
      above = above.getParent();
    }
    return above.resolve("tests/contract");
  }

  /** The names of all files of cases. */
  static TreeSet<String> names() throws IOException {
    TreeSet<String> names = new TreeSet<>();
    try (Stream<Path> files = Files.list(folder())) {
      files.map(file -> file.getFileName().toString()).filter(name -> name.endsWith(".json"))
          .forEach(name -> names.add(name.substring(0, name.length() - ".json".length())));
    }
    return names;
  }

  /** The case of this name. */
  public static JsonNode named(String rule, String name) throws IOException {
    for (JsonNode given : JSON.readTree(folder().resolve(rule + ".json").toFile())) {
      if (given.path("name").asText().equals(name)) {
        return given;
      }
    }
    throw new IllegalArgumentException(rule + " has no case '" + name + "'");
  }

  /** A test for each case of each of these rules. */
  public static List<DynamicTest> tests(Map<String, Rule> rules) throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    for (Map.Entry<String, Rule> rule : rules.entrySet()) {
      for (JsonNode given : JSON.readTree(folder().resolve(rule.getKey() + ".json").toFile())) {
        tests.add(dynamicTest(rule.getKey() + ": " + given.path("name").asText(), () -> check(rule.getValue(), given)));
      }
    }
    return tests;
  }

  /** The bytes of a case's manifest: {@code stored} in base64, or {@code manifest} as format 1 has it. */
  public static byte[] storedManifest(JsonNode given) throws IOException {
    return given.has("stored")
        ? Base64.getDecoder().decode(given.path("stored").asText())
        : Zstd.compress(given.path("manifest").isTextual()
            ? given.path("manifest").asText().getBytes(StandardCharsets.UTF_8) : JSON.writeValueAsBytes(given.path("manifest")));
  }

  private static void check(Rule rule, JsonNode given) throws Exception {
    if (given.has("error")) {
      Exception error = assertThrows(Exception.class, () -> rule.of(given));
      assertTrue(String.valueOf(error.getMessage()).contains(given.path("error").asText()), error.getMessage());
    } else {
      assertEquals(given.path("expected"), JSON.readTree(JSON.writeValueAsBytes(rule.of(given))));
    }
  }
}
