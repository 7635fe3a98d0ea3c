package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.colocation.spark.Logged;
import dev.colocation.spark.options.KnownOptions;
import dev.colocation.spark.options.KnownOptions.Way;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;

/** Users read in the driver's log which options of a read have no effect. */
class OptionsOfReadsTest {
  private static final CaseInsensitiveStringMap GIVEN =
      new CaseInsensitiveStringMap(Map.of("batch-size", "1", "compression", "snappy"));

  private static void assertLogged(Way way, BiConsumer<String, CaseInsensitiveStringMap> taken) {
    List<String> expected = KnownOptions.withoutEffect(way, GIVEN.keySet()).stream().map(line -> "WARN shop.orders: " + line).toList();
    assertEquals(2, expected.size());
    assertEquals(expected, Logged.by(OptionsOfReads.class, () -> taken.accept("shop.orders", GIVEN)));
    assertEquals(List.of(), Logged.by(OptionsOfReads.class, () -> taken.accept("shop.orders", CaseInsensitiveStringMap.empty())));
  }

  @Test
  void optionsWithoutEffectAreLogged() {
    assertLogged(Way.READ, OptionsOfReads::take);
    assertLogged(Way.CHANGES, OptionsOfReads::takeChanges);
  }
}
