package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import dev.colocation.spark.catalog.ChangesRange.Bound;
import dev.colocation.spark.catalog.ChangesRequest.Deduplication;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Snapshot;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Which files hold the rows that commits changed, and which of them have to be compared. */
final class FileChangesTest {
  private final Map<String, SortedMap<String, Long>> manifests = new HashMap<>();
  private final List<Snapshot> snapshots = new ArrayList<>();

  /** A snapshot of these files: partition, bucket, number. */
  private void commit(String operation, String... files) {
    long id = snapshots.size() + 1L;
    SortedMap<String, Long> lengths = new TreeMap<>();
    for (String file : files) {
      lengths.put(path(file), 10L);
    }
    manifests.put("m" + id, lengths);
    snapshots.add(new Snapshot(id, "m" + id, Instant.EPOCH, JsonNodeFactory.instance.objectNode().put("operation", operation)));
  }

  private static String path(String file) {
    return "data/p=" + file.charAt(0) + "/part-" + file + String.format(Locale.ROOT, "_%05d.c000.zstd.parquet", file.charAt(1) - '0');
  }

  private static String name(String path) {
    return path.replaceAll(".*/part-(.*)_.*", "$1");
  }

  /** {@code commit change files}, with {@code =} for those that are compared, and {@code @} the snapshot that holds them. */
  private List<String> changes(int from, Deduplication deduplication, boolean computesUpdates) {
    ChangesRequest request = new ChangesRequest(
        new ChangesRange(Bound.ofVersion("0", true), Optional.empty()), deduplication, computesUpdates);
    Optional<Snapshot> predecessor = from == 1 ? Optional.empty() : Optional.of(snapshots.get(from - 2));
    return FileChanges.of(predecessor, snapshots.subList(from - 1, snapshots.size()), one -> manifests.get(one.manifestSha256()), request)
        .parts().stream().map(part -> part.commit().id() + " " + part.change() + (part.isCompared() ? " = " : " ")
            + String.join(",", part.files().keySet().stream().map(FileChangesTest::name).toList()) + " @" + part.holder().id())
        .sorted().toList();
  }

  static Stream<Arguments> seconds() {
    return Stream.of(
        arguments("append", "append", "a0x a1x b0x a0y", List.of("2 insert a0y @2")),
        arguments("an insert-only MERGE", "merge", "a0x a1x b0x a0y", List.of("2 insert a0y @2")),
        arguments("compaction", "compact", "a0y a1x b0x", List.of()),
        arguments("dropped partition", "drop-partitions", "b0x", List.of("2 delete a0x,a1x @1")),
        arguments("replaced tablet", "update", "a0y a1x b0x", List.of("2 delete = a0x @1", "2 insert = a0y @2")),
        arguments("rows that moved to another tablet", "update", "a1x a1y b0x", List.of("2 delete a0x @1", "2 insert a1y @2")),
        arguments("some of each", "merge", "a0y a1x c0x",
            List.of("2 delete = a0x @1", "2 delete b0x @1", "2 insert = a0y @2", "2 insert c0x @2")),
        arguments("nothing stayed: its buckets may be others", "overwrite", "a0y c1x",
            List.of("2 delete = a0x,a1x,b0x @1", "2 insert = a0y,c1x @2")),
        arguments("no rows any more", "overwrite", "", List.of("2 delete a0x,a1x,b0x @1")));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("seconds")
  void filesOfOneCommit(String name, String operation, String files, List<String> expected) {
    commit("append", "a0x", "a1x", "b0x");
    commit(operation, files.isEmpty() ? new String[0] : files.split(" "));
    assertEquals(expected, changes(2, Deduplication.DROP_CARRYOVERS, false));
  }

  @Test
  void allRowsOfReplacedFilesAreChangesIfAskedFor() {
    commit("append", "a0x", "a1x");
    commit("update", "a0y", "a1x");
    assertEquals(List.of("2 delete a0x @1", "2 insert a0y @2"), changes(2, Deduplication.NONE, false));
  }

  /** Its snapshot is the one that has them, although it changed no row. */
  @Test
  void filesOfACompactionAreReadFromItsSnapshot() {
    commit("append", "a0x", "b0x");
    commit("compact", "a0y", "b0x");
    commit("drop-partitions", "b0x");
    assertEquals(List.of("3 delete a0y @2"), changes(2, Deduplication.DROP_CARRYOVERS, false));
  }

  /** Of an UPDATE every row is one; of a MERGE, keys with rows on both sides are, in whichever partitions. */
  @Test
  void updatesNeedTheFilesOfAKeyTogether() {
    commit("append", "a0x", "b0x", "c1x");
    commit("update", "b0y", "c1x", "a0x");
    commit("update", "b0y", "a0x", "c0x");
    commit("merge", "b0y", "d0x", "c0x");
    assertEquals(List.of("2 delete = b0x @1", "2 insert = b0y @2", "3 update_postimage c0x @3", "3 update_preimage c1x @2",
        "4 delete = a0x @3", "4 insert = d0x @4"), changes(2, Deduplication.DROP_CARRYOVERS, true));
  }

  @Test
  void netChangesAreThoseOfTheEnds() {
    commit("append", "a0x");
    commit("append", "a0x", "b0x", "b1x");
    commit("update", "a0y", "b0x", "b1x");
    commit("compact", "a0z", "b0x", "b1x");
    commit("drop-partitions", "a0z");
    commit("append", "a0z", "c0x");
    assertEquals(List.of("3 delete = a0x @1", "4 insert = a0z @4", "6 insert = c0x @6"), changes(2, Deduplication.NET_CHANGES, false));
    assertEquals(List.of("4 insert a0z @4", "6 insert c0x @6"), changes(1, Deduplication.NET_CHANGES, true));
    assertEquals(List.of(), changes(7, Deduplication.NET_CHANGES, true));
  }

  /** As a roll-back brings files back. */
  @Test
  void netChangesAreOfTheLastCommit() {
    commit("append", "a0x", "b0x");
    commit("drop-partitions", "b0x");
    commit("roll-back", "a0x", "b0x");
    commit("drop-partitions", "b0x");
    assertEquals(List.of("4 delete a0x @1"), changes(2, Deduplication.NET_CHANGES, false));
    commit("roll-back", "a0x", "b0x");
    assertEquals(List.of("1 insert b0x @1", "5 insert a0x @5"), changes(1, Deduplication.NET_CHANGES, false));
  }

  @Test
  void carriedRowsAreNoUpdates() {
    ColocationException error = assertThrows(
        ColocationException.class, () -> changes(1, Deduplication.NONE, true));
    assertEquals("InvalidOption: computeUpdates=true with deduplicationMode=none, which shows unchanged rows as deleted and "
        + "inserted; allowed: dropCarryovers, netChanges", error.getMessage());
  }
}
