package dev.colocation.spark.write;

import static dev.colocation.spark.write.Files.A;
import static dev.colocation.spark.write.Files.B;
import static dev.colocation.spark.write.Files.C;
import static dev.colocation.spark.write.Files.D;
import static dev.colocation.spark.write.Files.day;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.ChangeCounts;
import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.FakeTimer;
import dev.colocation.spark.cluster.RowCounts;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.cluster.WriteException.ReplicasMissing;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.write.Change.DropPartitions;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import dev.colocation.spark.write.Change.Rebucket;
import dev.colocation.spark.write.Change.Rewrite;
import dev.colocation.spark.write.Change.RollBack;
import dev.colocation.spark.write.RowChange.Kind;
import dev.colocation.spark.write.RowChange.ReadTablets;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** All of a change or none: compare-and-set against every kind of interruption. */
class CommitTest {
  private final FakeCluster cluster = new FakeCluster();
  private final ManifestMemory storage = new ManifestMemory();
  private final FakeTimer timer = new FakeTimer();

  private static NewFiles load(Mode mode, DataFile... files) {
    return new NewFiles(mode, List.of(files), Buckets.asGroup(2));
  }

  private CommitResult run(Mode mode, DataFile... files) {
    return run(load(mode, files), cluster.state());
  }

  private CommitResult run(Change change, ColocatedTable began) {
    return run(change, began, Optional.empty());
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
  void firstSnapshotCountsTheManifestsFiles() throws IOException {
    CommitResult result = run(Mode.APPEND, A, C);
    JsonNode snapshot = cluster.status().path("snapshot");
    assertEquals("{\"id\":1,\"manifest\":\"sha256:" + result.manifestSha256() + "\",\"partitions\":2,\"files\":2,\"rows\":20,"
        + "\"bytes\":200,\"rowsInserted\":20,\"rowsUpdated\":0,\"rowsDeleted\":0,\"filesAdded\":2,\"filesRemoved\":0,"
        + "\"operation\":\"append\",\"committedAt\":\"2026-11-21T04:00:00Z\"}", snapshot.toString());
    assertEquals(List.of(1L, 20L, 2L, 200L), List.of(result.snapshotId(), result.rows(), result.files(), result.bytes()));
    assertFalse(result.wasCommittedBefore());
  }

  @ParameterizedTest
  @CsvSource({"APPEND, 3", "OVERWRITE, 1", "OVERWRITE_PARTITIONS, 2"})
  void modes(Mode mode, int files) throws IOException {
    run(Mode.APPEND, A, C);
    assertEquals(2, run(mode, B).snapshotId());
    assertEquals(files, paths().size());
    assertTrue(paths().contains(B.path()));
  }

  /** A restore of etcd during the load: another commit got the id of the snapshot on which it began. */
  @Test
  void aSnapshotOfTheSameIdIsNotTheSame() {
    run(Mode.APPEND, A);
    ObjectNode copy = cluster.status().deepCopy();
    run(Mode.APPEND, B);
    ColocatedTable began = cluster.state();
    cluster.status().removeAll().setAll(copy);
    run(Mode.APPEND, C);
    conflict("it began on snapshot 2, and snapshot 2 was committed meanwhile", () -> run(load(Mode.OVERWRITE, A), began));
  }

  @Test
  void replacedSnapshotsBecomeHistoryWithinRetention() {
    cluster.spec().putObject("retention").put("snapshots", 2).put("seconds", 86400);
    for (int number = 0; number < 4; number++) {
      run(Mode.APPEND, Files.file("0000000" + number, "a"));
    }
    List<Long> history = new ArrayList<>();
    cluster.status().path("history").forEach(one -> history.add(one.path("id").asLong()));
    assertEquals(List.of(3L, 2L), history);
  }

  @ParameterizedTest
  @CsvSource({"86400, 10, 3 2 1", "86400, 2, 3 2", "86400, 0, ''", "0, 10, ''", "60, 10, ''", "61, 10, 3", "3600, 10, 3 2"})
  void firstReachedRetentionLimitCounts(int seconds, int snapshots, String kept) {
    cluster.spec().putObject("retention").put("snapshots", snapshots).put("seconds", seconds);
    cluster.status().set("snapshot", snapshot(3, "2026-11-21T11:50:00Z"));
    cluster.status().putArray("history").add(snapshot(2, "2026-11-21T11:00:00Z")).add(snapshot(1, "2026-11-20T11:00:00Z"));
    List<Snapshot> found = cluster.state().historyAfter(java.time.Instant.parse("2026-11-21T11:59:00Z"),
        java.time.Instant.parse("2026-11-21T12:00:00Z"));
    assertEquals(kept, String.join(" ", found.stream().map(one -> String.valueOf(one.id())).toList()));
  }

  @Test
  void timesAreTheApiServers() throws Exception {
    run(Mode.APPEND, A);
    run(Mode.APPEND, B);
    cluster.time = Optional.of(timer.now);
    timer.now = timer.now.plus(Duration.ofDays(30));
    Cluster asked = new Cluster(cluster, timer);
    ColocatedTable began = asked.table("shop", "orders");
    cluster.time = cluster.time.map(time -> time.plus(Duration.ofHours(9))); // the driver's machine slept
    new Commit(asked, storage, load(Mode.APPEND, C), Optional.empty(), began, timer).run(began);
    assertEquals(2, cluster.status().path("history").size());
    assertEquals("2026-11-21T13:00:00Z", cluster.status().path("snapshot").path("committedAt").asText());
  }

  static ObjectNode snapshot(long id, String committedAt) {
    return FakeCluster.JSON.createObjectNode().put("id", id).put("manifest", "sha256:" + String.format(Locale.ROOT, "%064d", id))
        .put("committedAt", committedAt);
  }

  @Test
  void laterVersionsFieldsOfSnapshotsAreKept() {
    run(Mode.APPEND, A);
    ((ObjectNode) cluster.status().path("snapshot")).put("later", 7);
    run(Mode.APPEND, B);
    assertEquals(7, cluster.status().path("history").path(0).path("later").asInt());
  }

  @Test
  void overtakenAppendGoesOnTop() throws IOException {
    cluster.beforeWrite = () -> run(Mode.APPEND, A);
    assertEquals(2, run(Mode.APPEND, B).snapshotId());
    assertEquals(Set.of(A.path(), B.path()), paths());
    assertEquals(1, cluster.status().path("history").size());
  }

  static Stream<Change> changesThatCompareNoFiles() {
    return Stream.of(load(Mode.APPEND, D), new DropPartitions(List.of(day("b"))),
        new Rewrite(Set.of(A.path()), List.of(D), Buckets.asGroup(2)), new Change.DropColumns());
  }

  /** They go on top of any commit, so they need no manifest but the newest: the one on which they began may be expired. */
  @ParameterizedTest
  @MethodSource("changesThatCompareNoFiles")
  void theManifestAtTheBeginIsNotNeeded(Change change) {
    CommitResult first = run(Mode.APPEND, A, C);
    cluster.beforeWrite = () -> {
      run(Mode.APPEND, B);
      storage.stored.remove(first.manifestSha256());
    };
    assertEquals(3, run(change, cluster.state()).snapshotId());
  }

  @Test
  void droppedPartitionsGoOnTop() throws IOException {
    run(Mode.APPEND, A, C);
    cluster.beforeWrite = () -> run(Mode.APPEND, B);
    assertEquals(3, run(new DropPartitions(List.of(day("a"))), cluster.state()).snapshotId());
    assertEquals(Set.of(C.path()), paths());
  }

  static Stream<Arguments> recordedChanges() {
    return Stream.of(
        arguments(load(Mode.APPEND, D), "10 inserted, 0 updated, 0 deleted", 1, 0),
        arguments(load(Mode.OVERWRITE, D), "10 inserted, 0 updated, 30 deleted", 1, 3),
        arguments(load(Mode.OVERWRITE_PARTITIONS, D), "10 inserted, 0 updated, 20 deleted", 1, 2),
        arguments(new DropPartitions(List.of(day("b"))), "0 inserted, 0 updated, 10 deleted", 0, 1),
        arguments(new Rewrite(Set.of(A.path(), B.path()), List.of(D), Buckets.asGroup(2)), "0 inserted, 0 updated, 0 deleted", 1, 2),
        arguments(new RowChange(Kind.MERGE, Set.of(A.path()), List.of(D), Buckets.asGroup(2), ReadTablets.ALL, new RowCounts(2, 3, 2)),
            "2 inserted, 3 updated, 2 deleted", 1, 1));
  }

  @ParameterizedTest
  @MethodSource("recordedChanges")
  void snapshotsRecordWhatTheirCommitChanged(Change change, String rows, long added, long removed) {
    run(Mode.APPEND, A, B, C);
    ChangeCounts changed = run(change, cluster.state()).changed();
    assertEquals(rows, changed.rows().orElseThrow().toString());
    assertEquals(List.of(added, removed), List.of(changed.filesAdded().getAsLong(), changed.filesRemoved().getAsLong()));
    assertEquals(changed, cluster.state().snapshot().orElseThrow().changed());
  }

  /** Files that come back may have the rows that go: only their number is known. The counts of the snapshot before do not stay. */
  @Test
  void rowsOfARollBackAreNotCounted() throws IOException {
    run(Mode.APPEND, A);
    run(Mode.OVERWRITE, B, C);
    ChangeCounts changed = run(backTo(1), cluster.state()).changed();
    assertEquals(new ChangeCounts(Optional.empty(), OptionalLong.of(1), OptionalLong.of(2)), changed);
    assertEquals(changed, cluster.state().snapshot().orElseThrow().changed());
  }

  /** Releases before those that count, and statuses that were written by hand. */
  @Test
  void whatAnOverwriteOfUncountedRowsDeletesIsUnknown() {
    run(Mode.APPEND, A);
    ((ObjectNode) cluster.status().path("snapshot")).remove(List.of("rows", "files"));
    assertEquals(new ChangeCounts(Optional.empty(), OptionalLong.of(1), OptionalLong.empty()), run(Mode.OVERWRITE, B).changed());
  }

  /** Equal changes of the same snapshot make the same files: neither takes the other's snapshot for its own. */
  @Test
  void equalChangesAtOnceAreBothRecorded() {
    run(Mode.APPEND, A, C);
    DropPartitions drop = new DropPartitions(List.of(day("a")));
    cluster.beforeWrite = () -> run(drop, cluster.state(), Optional.of(new CommitKey("one", 0)));
    assertEquals(3, run(drop, cluster.state(), Optional.of(new CommitKey("two", 0))).snapshotId());
    assertEquals(List.of("two 0 3", "one 0 2"), cluster.commits());
  }

  private RollBack backTo(long id) throws IOException {
    ColocatedTable table = cluster.state();
    Snapshot target = table.history().stream().filter(one -> one.id() == id).findFirst().orElseThrow();
    return RollBack.of(table, target, storage.read(target.manifestSha256()),
        storage.read(table.snapshot().orElseThrow().manifestSha256()));
  }

  @Test
  void rollBackRestoresTheOldFiles() throws IOException {
    run(Mode.APPEND, A);
    run(Mode.APPEND, C);
    run(Mode.OVERWRITE, D);
    RollBack change = backTo(2);
    assertEquals(List.of(A, C), change.files());
    assertEquals(4, run(change, cluster.state()).snapshotId());
    assertEquals(Set.of(A.path(), C.path()), paths());
    assertEquals("roll-back", cluster.status().path("snapshot").path("operation").asText());
    assertEquals(3, cluster.status().path("history").path(0).path("id").asInt());
  }

  @Test
  void overtakenRollBackFails() throws IOException {
    run(Mode.APPEND, A);
    run(Mode.APPEND, C);
    RollBack change = backTo(1);
    cluster.beforeWrite = () -> run(Mode.APPEND, B);
    conflict("(roll-back) was overtaken: it began on snapshot 2, and snapshot 3 was committed", () -> run(change, cluster.state()));
    assertEquals(Set.of(A.path(), B.path(), C.path()), paths());
  }

  @Test
  void expiredSnapshotIsNotRestored() throws IOException {
    run(Mode.APPEND, A);
    run(Mode.APPEND, C);
    RollBack change = backTo(1);
    cluster.beforeWrite = () -> {
      cluster.status().putArray("history");
      cluster.touch(cluster.table());
    };
    conflict("no longer keeps snapshot 1", () -> run(change, cluster.state()));
    assertEquals(Set.of(A.path(), C.path()), paths());
  }

  @Test
  void snapshotOfAnotherLayoutIsNotRestored() throws IOException {
    run(Mode.APPEND, A);
    cluster.spec().putArray("sortedBy").add("day");
    run(Mode.OVERWRITE, C);
    conflict("its files have sortedBy", () -> backTo(1));
  }

  @Test
  void rewriteOfRemovedFilesFails() throws IOException {
    run(Mode.APPEND, A);
    cluster.beforeWrite = () -> run(Mode.OVERWRITE, B);
    Rewrite rewrite = new Rewrite(Set.of(A.path()), List.of(C), Buckets.asGroup(2));
    conflict("compact was overtaken: 1 of the 1 files", () -> run(rewrite, cluster.state()));
    assertEquals(Set.of(B.path()), paths());
  }

  @Test
  void aRewriteGoesOnTopOfAppends() throws IOException {
    run(Mode.APPEND, A);
    cluster.beforeWrite = () -> run(Mode.APPEND, C);
    run(new Rewrite(Set.of(A.path()), List.of(B), Buckets.asGroup(2)), cluster.state());
    assertEquals(Set.of(B.path(), C.path()), paths());
  }

  /** All files are replaced, and the snapshot records the table's number; a file of the old number is refused then. */
  @Test
  void aRebucketingChangesTheNumberOfAllFiles() throws IOException {
    run(Mode.APPEND, A);
    DataFile first = Files.ofFour("0000001a", "a", 0);
    DataFile third = Files.ofFour("0000001b", "a", 2);
    Buckets four = new Buckets(2, 4);
    run(new Rebucket(Set.of(A.path()), List.of(first, third), four), cluster.state());
    assertEquals(Set.of(first.path(), third.path()), paths());
    assertEquals(4, cluster.state().snapshot().orElseThrow().buckets());
    assertEquals("rebucket", cluster.state().snapshot().orElseThrow().operation());
    conflict("its files have buckets 4 (2 of the group), the table now has 2", () -> run(Mode.APPEND, B));
    DataFile another = Files.ofFour("0000001c", "b", 1);
    run(new NewFiles(Mode.APPEND, List.of(another), four), cluster.state());
    assertEquals(4, cluster.state().snapshot().orElseThrow().buckets());
    run(new Rebucket(paths(), List.of(C), Buckets.asGroup(2)), cluster.state());
    assertEquals(0, cluster.state().snapshot().orElseThrow().buckets());
  }

  @Test
  void aRebucketingDoesNotGoOnTopOfAppends() throws IOException {
    run(Mode.APPEND, A);
    cluster.beforeWrite = () -> run(Mode.APPEND, C);
    Rebucket rebucket = new Rebucket(Set.of(A.path()), List.of(Files.ofFour("0000001a", "a", 0)), new Buckets(2, 4));
    conflict("rebucket was overtaken: 1 files were added meanwhile", () -> run(rebucket, cluster.state()));
    assertEquals(Set.of(A.path(), C.path()), paths());
  }

  /** An append that was written before a rebucketing would mix files of two numbers. */
  @Test
  void anAppendDoesNotGoOnTopOfARebucketing() throws IOException {
    run(Mode.APPEND, A);
    DataFile rewritten = Files.ofFour("0000001a", "a", 0);
    cluster.beforeWrite = () -> run(new Rebucket(Set.of(A.path()), List.of(rewritten), new Buckets(2, 4)), cluster.state());
    conflict("its files have buckets 4 (2 of the group), the table now has 2", () -> run(Mode.APPEND, B));
    assertEquals(Set.of(rewritten.path()), paths());
  }

  @Test
  void filesOfAnotherNumberAreRefused() {
    assertThrows(IllegalArgumentException.class, () -> run(new NewFiles(Mode.APPEND, List.of(A), new Buckets(2, 4)), cluster.state()));
    assertThrows(IllegalArgumentException.class, () -> run(Mode.APPEND, Files.ofFour("0000001a", "a", 0)));
  }

  @ParameterizedTest
  @CsvSource({
      "OVERWRITE, 'was overtaken: it began on snapshot 0, and snapshot 1'",
      "OVERWRITE_PARTITIONS, 'was overtaken: 1 of the partitions that it replaces were changed meanwhile, e.g. day=a'"})
  void overtakenOverwriteIsReported(Mode mode, String message) throws IOException {
    cluster.beforeWrite = () -> run(Mode.APPEND, A);
    conflict(message, () -> run(mode, B));
    assertEquals(Set.of(A.path()), paths());
  }

  @ParameterizedTest
  @CsvSource({"APPEND, b, true", "OVERWRITE_PARTITIONS, b, true", "APPEND, a, false", "OVERWRITE_PARTITIONS, a, false",
      "OVERWRITE, b, false"})
  void backfillsOfOtherPartitionsDoNotConflict(Mode meanwhile, String day, boolean lands) throws IOException {
    run(Mode.APPEND, A);
    DataFile other = Files.file("0000000f", day);
    cluster.beforeWrite = () -> run(meanwhile, other);
    if (lands) {
      run(Mode.OVERWRITE_PARTITIONS, B);
      assertEquals(Set.of(B.path(), other.path()), paths());
    } else {
      conflict("overwrite-partitions was overtaken: 1 of the partitions", () -> run(Mode.OVERWRITE_PARTITIONS, B));
    }
  }

  @Test
  void anOverwriteOvertakenBeforeItsCommitFailsToo() {
    ColocatedTable began = cluster.state();
    run(Mode.APPEND, A);
    conflict("was overtaken", () -> run(load(Mode.OVERWRITE, B), began));
  }

  @Test
  void expiredBaseSnapshotIsAConflict() {
    run(Mode.APPEND, A);
    ColocatedTable began = cluster.state();
    storage.stored.clear();
    run(Mode.OVERWRITE, C);
    conflict("snapshot 1, on which it began, can no longer be read", () -> run(load(Mode.OVERWRITE_PARTITIONS, B), began));
  }

  @Test
  void overwriteDoesNotReadReplacedFiles() throws IOException {
    run(Mode.APPEND, A);
    storage.stored.clear();
    run(Mode.OVERWRITE, B);
    assertEquals(Set.of(B.path()), paths());
  }

  @Test
  void otherWritersOfTheObjectDoNotMatter() throws IOException {
    cluster.beforeWrite = () -> {
      cluster.status().put("observedGeneration", 2);
      cluster.touch(cluster.table());
    };
    run(Mode.OVERWRITE, A);
    assertEquals(Set.of(A.path()), paths());
    assertEquals(2, cluster.patches.size());
    assertEquals(1, storage.stored.size(), "the same manifest is committed, not another one published");
  }

  @Test
  void recreatedTableIsNotLoaded() {
    cluster.beforeWrite = cluster::recreate;
    conflict("dropped and recreated", () -> run(Mode.APPEND, A));
    assertTrue(cluster.state().snapshot().isEmpty());
  }

  @Test
  void aFailedPublicationCommitsNothing() throws IOException {
    run(Mode.APPEND, A);
    storage.failure = new ReplicasMissing("killed");
    assertThrows(ReplicasMissing.class, () -> run(Mode.APPEND, B));
    assertEquals(Set.of(A.path()), paths());
  }

  @Test
  void endlessConflictsFail() {
    Runnable[] touch = new Runnable[1];
    touch[0] = () -> {
      cluster.touch(cluster.table());
      cluster.beforeWrite = touch[0];
    };
    cluster.beforeWrite = touch[0];
    conflict("was changed 50 times in a row", () -> run(Mode.APPEND, A));
  }

  @Test
  void filesOfAnotherLayoutAreNotMixed() throws IOException {
    run(Mode.APPEND, A);
    conflict("its files have buckets 2, the table now has 4",
        () -> run(new NewFiles(Mode.APPEND, List.of(B), Buckets.asGroup(4)), cluster.state()));
    cluster.spec().putArray("sortedBy").add("day").add("id");
    conflict("its files have sortedBy [id], the table now has [day, id]", () -> run(Mode.APPEND, B));
    run(new NewFiles(Mode.OVERWRITE, List.of(B), Buckets.asGroup(4)), cluster.state());
    assertEquals(Set.of(B.path()), paths());
  }

  /** Files are sorted by the order that the table had when the load began; readers merge them by the one that it has. */
  @Test
  void layoutChangeDuringALoadIsAConflict() throws IOException {
    run(Mode.APPEND, A);
    ColocatedTable began = cluster.state();
    cluster.spec().putArray("sortedBy").add("day").add("id");
    conflict("was changed while this overwrite ran: sortedBy was [id] and is [day, id]. Nothing was changed",
        () -> run(load(Mode.OVERWRITE, B), began));
    run(Mode.OVERWRITE);
    ColocatedTable empty = cluster.state();
    cluster.spec().putArray("sortedBy").add("id");
    conflict("sortedBy was [day, id] and is [id]", () -> run(load(Mode.APPEND, B), empty));
    cluster.spec().withArray("columns").addObject().put("name", "x").put("type", "int").put("nullable", false);
    ColocatedTable before = ColocatedTable.parse(cluster.table().deepCopy());
    cluster.spec().withArray("columns").remove(cluster.spec().withArray("columns").size() - 1);
    conflict("column x (int) exists and is no longer in the spec", () -> run(load(Mode.APPEND, B), before));
    assertEquals(Set.of(), paths());
  }

  /** Its files are of the definition of before, which the object's conflict is the first to tell. */
  @Test
  void definitionChangeBeforeCommitIsAConflict() throws IOException {
    run(Mode.APPEND, A);
    cluster.beforeWrite = () -> {
      cluster.spec().withArray("columns").addObject().put("name", "x").put("type", "int").put("nullable", false);
      cluster.touch(cluster.table());
    };
    conflict("column x (int) is new and would have to be nullable", () -> run(Mode.APPEND, B));
    assertEquals(Set.of(A.path()), paths());
  }

  /** The manifest describes its files by the definition that is committed with it. */
  @Test
  void columnAddedDuringPublicationIsInTheManifest() throws IOException {
    cluster.beforeWrite = () -> {
      cluster.spec().withArray("columns").addObject().put("name", "x").put("type", "int");
      cluster.touch(cluster.table());
    };
    CommitResult result = run(Mode.APPEND, A);
    assertEquals(List.of("id", "day", "x"),
        storage.read(result.manifestSha256()).columns().stream().map(column -> column.name()).toList());
  }

  /** Values are padded to the length of before. */
  @Test
  void charLengthChangedDuringPublicationIsAConflict() {
    ObjectNode column = cluster.spec().withArray("columns").addObject().put("name", "c").put("type", "char(3)");
    cluster.beforeWrite = () -> {
      column.put("type", "char(5)");
      cluster.touch(cluster.table());
    };
    conflict("CHAR columns was {c=3} and is {c=5}", () -> run(Mode.OVERWRITE, A));
  }

  /** The operator reads no manifests: what the files fit by now is written together with them. */
  @Test
  void replacingRowsReportNewColumns() {
    run(Mode.APPEND, A);
    cluster.status().set("columns", cluster.spec().path("columns").deepCopy());
    run(Mode.OVERWRITE, B);
    assertFalse(cluster.patches.get(1).path("status").has("columns"));
    cluster.spec().withArray("columns").addObject().put("name", "x").put("type", "int").put("nullable", false);
    run(Mode.OVERWRITE, C);
    assertEquals(cluster.spec().path("columns"), cluster.status().path("columns"));
  }

  /** The published files were checked on the nodes of the table's group at that time; the object changed before the commit. */
  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {"sortedBy|sortedBy was [id] and is [id, day]", "bucketedBy|bucketedBy was [id] and is [id, day]",
      "partitionedBy|partitionedBy was [day] and is [id, day]", "group|group was shop/sales and is shop/other"})
  void changeDuringPublicationIsAConflict(String what, String words) throws IOException {
    run(Mode.APPEND, A);
    cluster.beforeWrite = () -> {
      if (what.equals("group")) {
        cluster.status().put("group", "shop/other");
      } else {
        cluster.spec().putArray(what).add("id").add("day");
      }
      cluster.touch(cluster.table());
    };
    conflict(words, () -> run(Mode.OVERWRITE, B));
    assertEquals(1, cluster.state().snapshotId());
  }

  @Test
  void onlyAddedColumnsAreNoConflict() {
    run(Mode.APPEND, A);
    ObjectNode added = cluster.spec().withArray("columns").addObject().put("name", "x").put("type", "INT");
    run(Mode.APPEND, B);
    added.put("type", "integer");
    run(Mode.APPEND, D);
    added.put("type", "string");
    conflict("column x has type integer and should be string", () -> run(Mode.APPEND, C));
    added.put("type", "int").put("nullable", false);
    conflict("column x may hold NULL and should not", () -> run(Mode.APPEND, C));
    added.put("name", "y");
    conflict("column x (integer) exists and is no longer in the spec; column y (int) is new and would have to be nullable",
        () -> run(Mode.APPEND, C));
    added.put("storedAs", "x").put("nullable", true);
    run(Mode.APPEND, C);
  }

  @Test
  void aTableWithoutFilesTakesAnyLayout() {
    run(Mode.APPEND, A);
    run(Mode.OVERWRITE);
    cluster.spec().withArray("columns").addObject().put("name", "x").put("type", "int").put("nullable", false);
    assertEquals(3, run(Mode.APPEND, B).snapshotId());
  }

  @Test
  void onlyAnOverwriteReplacesAnInvalidStatus() throws IOException {
    run(Mode.APPEND, A);
    ((ObjectNode) cluster.status().path("snapshot")).put("id", 7).put("manifest", "x");
    WriteException.InvalidTable error = assertThrows(WriteException.InvalidTable.class, () -> run(Mode.APPEND, B));
    assertTrue(error.getMessage().startsWith("InvalidStatus: the status of table shop.orders cannot be understood: "
        + "status.snapshot.manifest is \"x\"; allowed: sha256: followed by"), error.getMessage());
    assertEquals(8, run(Mode.OVERWRITE, B).snapshotId());
    assertEquals(Set.of(B.path()), paths());
  }

  @Test
  void aFileIsCommittedOnce() throws IOException {
    run(Mode.APPEND, A);
    conflict("is committed already", () -> run(Mode.APPEND, A));
    assertEquals(List.of(A.path()), storage.paths(cluster));
  }

  @Test
  void filesOfAWrongBucketOrPartitionAreRefused() {
    DataFile bucket = new DataFile(A.path(), 1, A.partition(), 1, 1, A.sha256(), KeyRange.NONE);
    assertThrows(IllegalArgumentException.class, () -> run(Mode.APPEND, bucket));
    DataFile partition = new DataFile(A.path(), 0, java.util.Map.of(), 1, 1, A.sha256(), KeyRange.NONE);
    assertThrows(IllegalArgumentException.class, () -> run(Mode.APPEND, partition));
  }

  @Test
  void missingTableIsWaitedForUntilTheDeadline() {
    cluster.status().put("accepted", false);
    WriteException.NotReady error = assertThrows(WriteException.NotReady.class, () -> LoadTarget.await(
        new Cluster(cluster, timer), "shop", "orders", Duration.ofSeconds(5), CompareAndSet.ANSWER_DEADLINE, timer));
    assertEquals("NotReady: table shop.orders cannot be loaded after 5 s: the operator has not accepted it yet", error.getMessage());
    assertEquals("NotReady", error.getCondition());
    assertEquals(error.getMessage(), error.toString());
    assertEquals("KD000", error.getSqlState());
    assertEquals(error.getMessage(), error.getMessageParameters().get("message"));
    assertEquals(5, timer.waited.toSeconds());
  }

  @ParameterizedTest
  @CsvSource({"SchemaMismatch,1,0", "InvalidSpec,1,0", "NoGroup,1,5", "SchemaMismatch,0,5"})
  void refusedTableIsWaitedForOnlyWhereItMayBeAcceptedByItself(String reason, long observedGeneration, long seconds) {
    cluster.table().withObject("/metadata").put("generation", 1);
    cluster.status().put("accepted", false).putArray("conditions").addObject().put("type", "Accepted").put("status", "False")
        .put("reason", reason).put("message", "12 should be 8").put("observedGeneration", observedGeneration);
    WriteException.NotReady error = assertThrows(WriteException.NotReady.class, () -> LoadTarget.await(
        new Cluster(cluster, timer), "shop", "orders", Duration.ofSeconds(5), CompareAndSet.ANSWER_DEADLINE, timer));
    String waited = seconds > 0 ? " after 5 s" : "";
    assertEquals("NotReady: table shop.orders cannot be loaded" + waited + ": " + reason + ": 12 should be 8", error.getMessage());
    assertEquals(seconds, timer.waited.toSeconds());
  }

  static void conflict(String words, org.junit.jupiter.api.function.Executable change) {
    WriteException.LoadConflict error = assertThrows(WriteException.LoadConflict.class, change);
    assertTrue(error.getMessage().contains(words), error.getMessage());
  }
}
