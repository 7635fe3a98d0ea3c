package dev.colocation.spark.write;

import static dev.colocation.spark.write.CommitTest.conflict;
import static dev.colocation.spark.write.Files.day;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.fasterxml.jackson.databind.node.ArrayNode;
import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.FakeTimer;
import dev.colocation.spark.cluster.RowCounts;
import dev.colocation.spark.cluster.WriteException.LoadConflict;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.write.Change.DropPartitions;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import dev.colocation.spark.write.Change.Overtaken;
import dev.colocation.spark.write.Change.Rewrite;
import dev.colocation.spark.write.RowChange.Kind;
import dev.colocation.spark.write.RowChange.ReadTablets;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** UPDATE, DELETE and MERGE stand next to changes of tablets that they have not read, and next to no other. */
class RowChangeTest {
  private static final DataFile A0 = Files.file("000000a0", "a", 0);
  private static final DataFile A1 = Files.file("000000a1", "a", 1);
  private static final DataFile B0 = Files.file("000000b0", "b", 0);
  private static final DataFile B1 = Files.file("000000b1", "b", 1);
  private static final DataFile NULL0 = Files.file("000000e0", null, 0);
  private static final List<DataFile> COMMITTED = List.of(A0, A1, B0, B1, NULL0);
  private static final ReadTablets ONLY_A0 = new ReadTablets(Set.of(0), List.of(day("a")));

  private final FakeCluster cluster = new FakeCluster();
  private final ManifestMemory storage = new ManifestMemory();
  private final FakeTimer timer = new FakeTimer();

  /** An update of some rows: as many files as it replaces. */
  private static RowChange update(ReadTablets read, Set<DataFile> replaced, DataFile... files) {
    return new RowChange(Kind.UPDATE, paths(replaced), List.of(files), Buckets.asGroup(2), read, new RowCounts(0, 1, 0));
  }

  /** A MERGE that found no row of its keys. */
  private static RowChange insert(ReadTablets read, DataFile... files) {
    return new RowChange(Kind.MERGE, Set.of(), List.of(files), Buckets.asGroup(2), read, new RowCounts(10L * files.length, 0, 0));
  }

  private static Set<String> paths(Set<DataFile> files) {
    return Set.copyOf(files.stream().map(DataFile::path).toList());
  }

  private static DataFile file(int number, String day, int bucket) {
    return Files.file("0000010" + number, day, bucket);
  }

  private static NewFiles load(Mode mode, DataFile... files) {
    return new NewFiles(mode, List.of(files), Buckets.asGroup(2));
  }

  private CommitResult run(Change change) {
    return run(change, cluster.state(), Optional.empty());
  }

  private CommitResult run(Change change, ColocatedTable began, Optional<CommitKey> key) {
    try {
      return new Commit(new Cluster(cluster, timer), storage, change, key, began, timer).run(cluster.state());
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  private Set<String> paths() throws IOException {
    return Set.copyOf(storage.paths(cluster));
  }

  @Test
  void filesThatAreNotReplacedStayInTheirOrder() throws Overtaken {
    assertEquals(List.of(A1, B1, NULL0), update(ReadTablets.ALL, Set.of(A0, B0), file(1, "a", 0), file(2, "b", 1)).kept(COMMITTED));
    assertEquals(COMMITTED, insert(ReadTablets.ALL, file(1, "a", 0)).kept(COMMITTED));
  }

  static Stream<Arguments> reads() {
    return Stream.of(
        arguments("every tablet", ReadTablets.ALL, COMMITTED),
        arguments("a bucket", new ReadTablets(Set.of(1), List.of()), List.of(A1, B1)),
        arguments("a partition", new ReadTablets(Set.of(), List.of(day("b"))), List.of(B0, B1)),
        arguments("the NULL partition", new ReadTablets(Set.of(), List.of(day(null))), List.of(NULL0)),
        arguments("buckets of partitions", new ReadTablets(Set.of(0), List.of(day("a"), day(null))), List.of(A0, NULL0)),
        arguments("a partition without files", new ReadTablets(Set.of(), List.of(day("z"))), List.of()),
        arguments("all values of a column", new ReadTablets(Set.of(0), List.of(Map.of())), List.of(A0, B0, NULL0)));
  }

  /** A file that comes to, or goes from, a tablet that was read is a conflict; elsewhere it is none. */
  @ParameterizedTest(name = "{0}")
  @MethodSource("reads")
  void conflictsArePerTablet(String name, ReadTablets read, List<DataFile> tablets) throws Overtaken {
    RowChange change = insert(read, file(1, "c", 0));
    for (DataFile one : COMMITTED) {
      List<DataFile> more = Stream.concat(COMMITTED.stream(),
          Stream.of(Files.file("0000000f", one.partition().get("day"), one.bucket()))).toList();
      List<DataFile> fewer = COMMITTED.stream().filter(file -> file != one).toList();
      for (List<DataFile> now : List.of(more, fewer)) {
        if (tablets.contains(one)) {
          assertThrows(Overtaken.class, () -> change.checkOvertaking(COMMITTED, now), one.path());
        } else {
          change.checkOvertaking(COMMITTED, now);
        }
      }
    }
  }

  /** A table's buckets 1 and 3 lie at the same place in a group of two; one of them was read. */
  @Test
  void conflictsArePerBucketOfTheTable() throws Overtaken {
    DataFile first = Files.ofFour("000000c1", "a", 1);
    DataFile third = Files.ofFour("000000c3", "a", 3);
    RowChange change = insert(new ReadTablets(Set.of(3), List.of()), Files.ofFour("0000000f", "a", 3));
    change.checkOvertaking(List.of(third), List.of(third, first));
    assertThrows(Overtaken.class, () -> change.checkOvertaking(List.of(first), List.of(first, third)));
  }

  @Test
  void aFileOfATabletThatWasNotReadIsNotReplaced() {
    RowChange wrong = update(ONLY_A0, Set.of(A1), file(1, "a", 1));
    IllegalArgumentException error = assertThrows(IllegalArgumentException.class, () -> wrong.kept(COMMITTED));
    assertTrue(error.getMessage().startsWith("update replaces " + A1.path() + ", whose tablet it has not read"), error.getMessage());
  }

  /** Rows that are carried over are in the new files: ten rows, one deleted, leave nine. */
  @Test
  void aRowThatIsNotCountedIsNotLost() {
    RowChange wrong = new RowChange(
        Kind.DELETE, Set.of(A0.path()), List.of(file(1, "a", 0)), Buckets.asGroup(2), ONLY_A0, new RowCounts(0, 0, 1));
    IllegalStateException error = assertThrows(IllegalStateException.class, () -> wrong.kept(COMMITTED));
    assertTrue(error.getMessage().startsWith("delete wrote 10 rows in place of 10, of which it counts 0 inserted, 0 updated, "
        + "1 deleted: expected 9."), error.getMessage());
  }

  /** Whatever let it come so far: the rows of a file that is gone are no longer there to be changed. */
  @Test
  void aFileThatIsNoLongerCommittedIsNotReplaced() {
    Overtaken error = assertThrows(
        Overtaken.class, () -> update(ReadTablets.ALL, Set.of(A0), A1).kept(List.of(A1, B0, B1, NULL0)));
    assertEquals("1 of the 1 files that it replaces are no longer committed, e.g. " + A0.path(), error.getMessage());
  }

  @Test
  void paddingHoldsForInsertsIntoNothingOnly() {
    Map<String, Integer> declared = Map.of("c", 5);
    assertEquals(declared, insert(ReadTablets.ALL, A0).padded(declared, Map.of(), List.of()));
    assertEquals(Map.of(), update(ReadTablets.ALL, Set.of(A0), A1).padded(declared, Map.of(), List.of()));
  }

  static Stream<Arguments> meanwhile() {
    DataFile other = Files.file("0000000f", "b", 0);
    return Stream.of(
        arguments("an append to another partition", load(Mode.APPEND, other), true),
        arguments("an append to another bucket", load(Mode.APPEND, Files.file("0000000f", "a", 1)), true),
        arguments("an append to its tablet", load(Mode.APPEND, Files.file("0000000f", "a", 0)), false),
        arguments("an overwrite of another partition", load(Mode.OVERWRITE_PARTITIONS, other), true),
        arguments("an overwrite of its partition", load(Mode.OVERWRITE_PARTITIONS, Files.file("0000000f", "a", 1)), false),
        arguments("an overwrite", load(Mode.OVERWRITE, other), false),
        arguments("a compaction of other tablets", new Rewrite(paths(Set.of(A1, B0)), List.of(other), Buckets.asGroup(2)), true),
        arguments("a dropped partition", new DropPartitions(List.of(day("b"))), true),
        arguments("its dropped partition", new DropPartitions(List.of(day("a"))), false),
        arguments("a change of another bucket",
            update(new ReadTablets(Set.of(1), List.of()), Set.of(A1), Files.file("0000000f", "a", 1)), true),
        arguments("a change that moves rows into its tablet",
            update(new ReadTablets(Set.of(1), List.of()), Set.of(A1), Files.file("0000000f", "a", 0)), false));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("meanwhile")
  void onlyChangesOfItsTabletsOvertakeIt(String name, Change change, boolean stands) throws IOException {
    run(load(Mode.APPEND, COMMITTED.toArray(DataFile[]::new)));
    DataFile changed = file(1, "a", 0);
    cluster.beforeWrite = () -> run(change);
    if (!stands) {
      conflict("update was overtaken: 1 of the tablets that it read were changed meanwhile, e.g. day=a, bucket 0: ",
          () -> run(update(ONLY_A0, Set.of(A0), changed)));
      return;
    }
    run(update(ONLY_A0, Set.of(A0), changed));
    assertTrue(paths().contains(changed.path()) && !paths().contains(A0.path()));
    assertTrue(paths().containsAll(paths(Set.copyOf(change.files()))), "the other change stands, too");
  }

  /** It moves no row to another tablet, so a condition chooses the same rows after it. */
  @Test
  void aCompactionOfATabletThatWasOnlyReadIsNoConflict() throws IOException {
    run(load(Mode.APPEND, COMMITTED.toArray(DataFile[]::new)));
    DataFile first = file(1, "a", 0);
    DataFile second = file(2, "a", 0);
    DataFile changed = file(3, "b", 0);
    cluster.beforeWrite = () -> {
      run(new Rewrite(paths(Set.of(A0)), List.of(first), Buckets.asGroup(2)));
      run(new Rewrite(paths(Set.of(first, A1)), List.of(second, file(4, "a", 1)), Buckets.asGroup(2)));
    };
    run(update(ReadTablets.ALL, Set.of(B0), changed));
    assertEquals(paths(Set.of(second, file(4, "a", 1), changed, B1, NULL0)), paths());
    DataFile third = file(5, "a", 0);
    cluster.beforeWrite = () -> run(new Rewrite(paths(Set.of(second)), List.of(third), Buckets.asGroup(2)));
    run(insert(ONLY_A0, file(6, "a", 0)));
    assertTrue(paths().containsAll(paths(Set.of(third, file(6, "a", 0)))));
  }

  @Test
  void aCompactionOfAFileThatIsReplacedIsAConflict() {
    run(load(Mode.APPEND, A0, B0));
    cluster.beforeWrite = () -> run(new Rewrite(paths(Set.of(A0)), List.of(file(1, "a", 0)), Buckets.asGroup(2)));
    conflict("update was overtaken: 1 of the 1 files that it replaces are no longer committed, e.g. " + A0.path(),
        () -> run(update(ONLY_A0, Set.of(A0), file(2, "a", 0))));
  }

  static Stream<Arguments> besidesACompaction() {
    DataFile compacted = file(1, "a", 0);
    Rewrite compaction = new Rewrite(paths(Set.of(A0)), List.of(compacted), Buckets.asGroup(2));
    DataFile more = file(2, "a", 0);
    return Stream.of(
        arguments("an append to another tablet", List.of(load(Mode.APPEND, file(2, "b", 1)), compaction), true),
        arguments("an append to its tablet, compacted, too",
            List.of(load(Mode.APPEND, more), new Rewrite(paths(Set.of(A0, more)), List.of(compacted), Buckets.asGroup(2))), false),
        arguments("an append to its tablet, after it", List.of(compaction, load(Mode.APPEND, more)), false),
        arguments("a change of its tablet", List.of(compaction, update(ONLY_A0, Set.of(compacted), more)), false),
        arguments("an append to its tablet that was taken back",
            List.of(load(Mode.APPEND, more), update(ONLY_A0, Set.of(A0, more), file(3, "a", 0), file(4, "a", 0)),
                new Rewrite(paths(Set.of(file(3, "a", 0), file(4, "a", 0))), List.of(compacted), Buckets.asGroup(2))), false));
  }

  /** Other commits are compared one by one with what the statement read. */
  @ParameterizedTest(name = "{0}")
  @MethodSource("besidesACompaction")
  void commitsBesidesACompactionAreJudgedByTheirTablets(String name, List<Change> changes, boolean stands) {
    run(load(Mode.APPEND, A0, B0));
    cluster.beforeWrite = () -> changes.forEach(this::run);
    RowChange merge = insert(ONLY_A0, file(5, "a", 0));
    if (stands) {
      run(merge);
    } else {
      conflict("merge was overtaken: 1 of the tablets that it read were changed meanwhile, e.g. day=a, bucket 0: ", () -> run(merge));
    }
  }

  /** What cannot be known is a conflict. */
  @ParameterizedTest
  @ValueSource(strings = {"the first snapshot is not kept", "a snapshot is missing", "a manifest is gone"})
  void unknownCommitsAreConflicts(String why) {
    run(load(Mode.APPEND, A0, B0));
    cluster.beforeWrite = () -> {
      run(load(Mode.APPEND, file(1, "b", 0)));
      String second = cluster.state().snapshot().orElseThrow().manifestSha256();
      run(new Rewrite(paths(Set.of(A0)), List.of(file(2, "a", 0)), Buckets.asGroup(2)));
      ArrayNode history = (ArrayNode) cluster.status().path("history");
      switch (why) {
        case "the first snapshot is not kept" -> history.remove(1);
        case "a snapshot is missing" -> history.remove(0);
        default -> storage.stored.remove(second);
      }
      cluster.touch(cluster.table());
    };
    conflict("merge was overtaken: 1 of the tablets that it read were changed meanwhile", () -> run(insert(ONLY_A0, file(3, "a", 0))));
  }

  @Test
  void anOverwriteOfPartitionsReplacesWhatACompactionLeft() throws IOException {
    run(load(Mode.APPEND, A0, B0));
    cluster.beforeWrite = () -> run(new Rewrite(paths(Set.of(A0)), List.of(file(1, "a", 0)), Buckets.asGroup(2)));
    run(load(Mode.OVERWRITE_PARTITIONS, file(2, "a", 1)));
    assertEquals(paths(Set.of(file(2, "a", 1), B0)), paths());
  }

  @Test
  void theConflictNamesTabletAndCommits() {
    run(load(Mode.APPEND, A0));
    cluster.beforeWrite = () -> run(load(Mode.OVERWRITE, file(2, "a", 0), file(3, "a", 0)));
    LoadConflict error = assertThrows(LoadConflict.class, () -> run(update(ReadTablets.ALL, Set.of(A0), file(1, "a", 0))));
    assertEquals("LoadConflict: table shop.orders: update was overtaken: 1 of the tablets that it read were changed meanwhile, e.g. "
        + "day=a, bucket 0: 2 files were added, 1 removed. Committed since snapshot 1, on which it began: 2 (overwrite). "
        + "Nothing was changed; start it again", error.getMessage());
  }

  @Test
  void twoMergesNeverInsertTheSameKey() throws IOException {
    run(load(Mode.APPEND, A0));
    DataFile first = file(1, "a", 1);
    cluster.beforeWrite = () -> run(insert(new ReadTablets(Set.of(1), List.of()), first));
    conflict("merge was overtaken", () -> run(insert(new ReadTablets(Set.of(1), List.of()), file(2, "a", 1))));
    assertEquals(Set.of(A0.path(), first.path()), paths());
  }

  @Test
  void mergesOfOtherKeysBothStand() throws IOException {
    DataFile first = file(1, "a", 0);
    DataFile second = file(2, "a", 1);
    cluster.beforeWrite = () -> run(insert(new ReadTablets(Set.of(0), List.of()), first));
    run(insert(new ReadTablets(Set.of(1), List.of()), second));
    assertEquals(Set.of(first.path(), second.path()), paths());
  }

  @Test
  void appendsAndCompactionsGoOnTopOfIt() throws IOException {
    run(load(Mode.APPEND, A0, B0));
    DataFile changed = file(1, "a", 0);
    for (Change later : Arrays.asList(
        load(Mode.APPEND, file(2, "a", 0)), new Rewrite(paths(Set.of(B0)), List.of(file(3, "b", 0)), Buckets.asGroup(2)))) {
      ColocatedTable began = cluster.state();
      if (paths().contains(A0.path())) {
        run(update(ONLY_A0, Set.of(A0), changed));
      } else {
        run(update(ONLY_A0, Set.of(changed, file(2, "a", 0)), file(4, "a", 0), file(5, "a", 0)));
      }
      run(later, began, Optional.empty());
    }
    assertEquals(paths(Set.of(file(3, "b", 0), file(4, "a", 0), file(5, "a", 0))), paths());
  }

  @Test
  void aRepeatedKeyChangesNothing() throws IOException {
    run(load(Mode.APPEND, A0));
    ColocatedTable began = cluster.state();
    Optional<CommitKey> key = Optional.of(new CommitKey("nightly", 0));
    assertEquals(2, run(update(ONLY_A0, Set.of(A0), file(1, "a", 0)), began, key).snapshotId());
    CommitResult again = run(update(ONLY_A0, Set.of(A0), file(2, "a", 0)), began, key);
    assertTrue(again.wasCommittedBefore() && again.snapshotId() == 2);
    assertEquals(Set.of(file(1, "a", 0).path()), paths());
  }
}
