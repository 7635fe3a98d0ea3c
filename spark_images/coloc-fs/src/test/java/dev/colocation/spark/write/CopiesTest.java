package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** How many copies a commit needs, and which nodes stand in for those of a bucket. */
class CopiesTest {
  @ParameterizedTest
  @CsvSource({"1, 1", "2, 2", "3, 2", "4, 3", "5, 3"})
  void moreThanHalfOfTheReplicasAreNeeded(int replicas, int copies) {
    assertEquals(copies, Copies.majority(replicas));
  }

  /** A reason may have a thousand characters, and a bucket seven nodes. */
  @Test
  void aReasonIsGivenOnceWithItsNodes() {
    Map<String, String> failures = new LinkedHashMap<>();
    failures.put("node-2", "Forbidden: no rights");
    failures.put("node-3", "its agent is not ready");
    failures.put("node-1", "Forbidden: no rights");
    assertEquals("node-2, node-1: Forbidden: no rights; node-3: its agent is not ready", Copies.byReason(failures));
  }

  /** Every other node of the group, once; of several buckets different ones come first, whatever the order of the map. */
  @Test
  void substitutesAreSpread() {
    List<List<String>> buckets = new ArrayList<>();
    for (int bucket = 0; bucket < 60; bucket++) {
      buckets.add(List.of("node-" + bucket % 10, "node-" + (bucket + 1) % 10));
    }
    Set<String> first = new HashSet<>();
    for (int bucket = 0; bucket < buckets.size(); bucket++) {
      List<String> found = Copies.substitutesFor(buckets, bucket);
      Set<String> others = new TreeSet<>(List.of("node-0", "node-1", "node-2", "node-3", "node-4", "node-5", "node-6", "node-7",
          "node-8", "node-9"));
      others.removeAll(buckets.get(bucket));
      assertEquals(List.copyOf(others), found.stream().sorted().toList());
      first.add(found.get(0));
      List<List<String>> mixed = new ArrayList<>(buckets);
      Collections.shuffle(mixed.subList(bucket + 1, mixed.size()), new Random(bucket));
      assertEquals(found, Copies.substitutesFor(mixed, bucket));
    }
    assertTrue(first.size() >= 8, first.toString());
  }
}
