package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

final class ProceduresTest {
  private static List<String> list(String... namespace) {
    return Arrays.stream(Procedures.list(namespace)).map(Object::toString).toList();
  }

  /** SHOW PROCEDURES IN a catalog, its schema system, or a schema of tables. */
  @Test
  void areInTheSchemaSystem() {
    List<String> all = List.of("system.compact", "system.drop_partitions", "system.explain", "system.rebucket", "system.roll_back",
        "system.write_result");
    assertEquals(all, list());
    assertEquals(all, list("system"));
    assertEquals(List.of(), list("shop"));
  }
}
