package dev.colocation.spark.options;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.colocation.spark.options.KnownOptions.KnownOption;
import dev.colocation.spark.options.KnownOptions.Way;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.Test;

/** The table of options covers the options that table formats document ({@code peer-options.json}). */
class KnownOptionsTest {
  private static final Map<String, List<Way>> WAYS =
      Map.of("read", List.of(Way.READ, Way.STREAM_READ, Way.CHANGES), "write", List.of(Way.WRITE, Way.STREAM_WRITE));

  /** Options that choose rows are done, or refused with what to use; none has no effect. */
  @Test
  void optionsThatChooseRowsNeverPass() throws IOException {
    Set<String> passed = new TreeSet<>();
    Set<String> unknown = new TreeSet<>();
    documented("rows", (way, name) -> {
      if (!KnownOptions.withoutEffect(way, Set.of(name)).isEmpty()) {
        passed.add(way + " " + name);
      }
      KnownOptions.refusal(way, Set.of(name)).filter(refusal -> refusal.contains("is unknown")).ifPresent(unknown::add);
    });
    assertEquals(Set.of(), passed);
    assertEquals(Set.of(), unknown);
  }

  /** Code that comes from elsewhere need not be stripped of sizes and formats. Of Hudi all is refused, and no option is unknown. */
  @Test
  void otherOptionsPassOrAreRefusedByName() throws IOException {
    Set<String> refused = new TreeSet<>();
    documented("no_rows", (way, name) -> KnownOptions.refusal(way, Set.of(name))
        .filter(refusal -> way == Way.READ || way == Way.WRITE || refusal.contains("is unknown"))
        .filter(refusal -> !refusal.contains("'hoodie."))
        .ifPresent(refused::add));
    assertEquals(Set.of(), refused);
  }

  private static void documented(String kind, BiConsumer<Way, String> judge) throws IOException {
    try (InputStream json = KnownOptionsTest.class.getResourceAsStream("/peer-options.json")) {
      JsonNode projects = new ObjectMapper().readTree(json);
      assertTrue(projects.size() >= 5);
      WAYS.forEach((direction, ways) -> projects.forEach(project -> {
        assertFalse(project.path(direction + " " + kind).isEmpty());
        project.path(direction + " " + kind).forEach(name -> ways.forEach(way -> judge.accept(way, name.asText())));
      }));
    }
  }

  /** In any case; another spelling is refused with the right one, anything else with what there is. */
  @Test
  void namesHaveNoCaseAndOneSpelling() {
    assertTrue(KnownOptions.refusal(Way.WRITE, Set.of("REPLACEWHERE", "Overwrite-Mode", "__of_spark", "hOODIE")).isPresent());
    assertTrue(KnownOptions.refusal(Way.WRITE, Set.of("REPLACEWHERE", "Overwrite-Mode", "__of_spark")).isEmpty());
    for (String misspelt : List.of("idempotency_key", "IdempotencyKey", "idempotency-kye", "idempotencykeys")) {
      assertEquals("option '" + misspelt + "' is unknown: it is spelt 'idempotency-key'",
          KnownOptions.refusal(Way.WRITE, Set.of(misspelt)).orElseThrow());
    }
    assertEquals("option 'snapshot_id' is unknown: it is spelt 'snapshot-id'",
        KnownOptions.refusal(Way.READ, Set.of("snapshot_id")).orElseThrow());
    assertTrue(KnownOptions.refusal(Way.READ, Set.of("key")).orElseThrow().startsWith("option 'key' is unknown: a read takes "));
    assertEquals("option 'replaceWhere' is not taken by a read: it is of a write",
        KnownOptions.refusal(Way.READ, Set.of("replacewhere")).orElseThrow());
    assertEquals("option 'isolation-level' is not taken by a read: leave it out",
        KnownOptions.refusal(Way.READ, Set.of("isolation-level")).orElseThrow());
    assertEquals("option 'txnAppId' is not taken by a stream's write: it is of a write; a stream has a key of its own, its query and "
        + "epoch: leave it out, and keep the checkpoint", KnownOptions.refusal(Way.STREAM_WRITE, Set.of("txnappid")).orElseThrow());
    assertEquals(List.of("option 'compression' has no effect: files are Parquet, as the table's writes make them"),
        KnownOptions.withoutEffect(Way.WRITE, List.of("Compression", "replaceWhere", "replacement-id")));
  }

  /** Each line is complete, and each name is in one line. */
  @Test
  void tableIsComplete() {
    Set<String> names = new TreeSet<>(String.CASE_INSENSITIVE_ORDER);
    for (KnownOption option : KnownOptions.all()) {
      option.names().forEach(name -> assertTrue(names.add(name), name));
      assertEquals(option.done().isEmpty(), option.does().isEmpty(), option.names().toString());
      assertEquals(option.passed().isEmpty(), option.because().isEmpty(), option.names().toString());
      assertTrue(!option.done().isEmpty() || !option.instead().isEmpty() || !option.passed().isEmpty(), option.names().toString());
    }
  }
}
