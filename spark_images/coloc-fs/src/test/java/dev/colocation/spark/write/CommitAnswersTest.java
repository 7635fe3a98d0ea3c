package dev.colocation.spark.write;

import static dev.colocation.spark.write.CommitTest.conflict;
import static dev.colocation.spark.write.FakeCluster.Fate.DO_AND_LOSE;
import static dev.colocation.spark.write.FakeCluster.Fate.DO_LATER;
import static dev.colocation.spark.write.FakeCluster.Fate.FAIL_AFTER;
import static dev.colocation.spark.write.FakeCluster.Fate.FAIL_BEFORE;
import static dev.colocation.spark.write.FakeCluster.Fate.LOSE;
import static dev.colocation.spark.write.Files.A;
import static dev.colocation.spark.write.Files.B;
import static dev.colocation.spark.write.Files.C;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.FakeTimer;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import dev.colocation.spark.write.FakeCluster.Fate;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A commit whose answer is lost: the table's status shows whether it happened, else the error explains how to find out. */
class CommitAnswersTest {
  private static final CommitKey KEY = new CommitKey("stream", 7);

  private final FakeCluster cluster = new FakeCluster();
  private final ManifestMemory storage = new ManifestMemory();
  private final FakeTimer timer = new FakeTimer();

  private CommitResult run(Mode mode, Optional<CommitKey> key, DataFile... files) {
    ColocatedTable began = cluster.state();
    try {
      return new Commit(new Cluster(cluster, timer), storage, new NewFiles(mode, List.of(files), Buckets.asGroup(2)), key, began, timer).run(began);
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  private CommitResult run(Mode mode, DataFile... files) {
    return run(mode, Optional.empty(), files);
  }

  static Stream<Arguments> fates() {
    List<List<Fate>> fates = List.of(
        List.of(DO_AND_LOSE), List.of(LOSE), List.of(DO_LATER), List.of(FAIL_AFTER), List.of(FAIL_BEFORE),
        List.of(LOSE, FAIL_BEFORE, DO_LATER, DO_AND_LOSE));
    return Stream.of(Mode.APPEND, Mode.OVERWRITE).flatMap(mode -> fates.stream().flatMap(
        fate -> Stream.of(Optional.empty(), Optional.of(KEY)).map(key -> arguments(mode, fate, key))));
  }

  @ParameterizedTest
  @MethodSource("fates")
  void lostAnswerCommitsOnce(Mode mode, List<Fate> writes, Optional<CommitKey> key) throws IOException {
    cluster.writes.addAll(writes);
    assertEquals(1, run(mode, key, A).snapshotId());
    assertEquals(List.of(A.path()), storage.paths(cluster));
    assertEquals(1, cluster.state().snapshotId());
    assertEquals(key.isPresent() ? List.of("stream 7 1") : List.of(), cluster.commits());
  }

  @Test
  void failedReadsAreRetried() {
    cluster.writes.add(DO_AND_LOSE);
    cluster.reads.addAll(List.of(504, 0, 429, 500));
    assertEquals(1, run(Mode.APPEND, A).snapshotId());
    assertTrue(timer.waited.toSeconds() > 1 && timer.waited.compareTo(CompareAndSet.ANSWER_DEADLINE) < 0);
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 503, 403})
  void unknownOutcomeIsReported(int last) {
    cluster.writes.add(DO_AND_LOSE);
    cluster.allReads = last;
    WriteException.CommitUnknown error = assertThrows(WriteException.CommitUnknown.class, () -> run(Mode.APPEND, A));
    String manifest = cluster.state().snapshot().orElseThrow().manifest();
    String text = error.getMessage();
    assertTrue(text.contains("it is not known whether snapshot 1 (" + manifest + ") was committed: ColocatedTable "
        + "shop/orders: the API server answered 504: Gateway Timeout; asked for 120 s at most, the API server's last answer: "), text);
    assertTrue(text.contains("if " + manifest + " is there, the change is done, do not repeat it; if not, start it again"));
    assertTrue(timer.waited.compareTo(CompareAndSet.ANSWER_DEADLINE.plusSeconds(10)) < 0);
  }

  /** As the catalog does. */
  @Test
  void refusedTokenIsReported() {
    cluster.allReads = 401;
    WriteException error = assertThrows(WriteException.class, () -> new Cluster(cluster, timer).table("shop", "orders"));
    assertTrue(error.getMessage().endsWith("start the application again"), error.getMessage());
  }

  /** REPLACE TABLE: rows that may be committed need the new definition. */
  @Test
  void definitionIsRestoredUnlessTheOutcomeIsUnknown() {
    AtomicInteger changedBack = new AtomicInteger();
    cluster.writes.add(DO_AND_LOSE);
    cluster.allReads = 503;
    assertThrows(WriteException.CommitUnknown.class,
        () -> Transaction.orUndo(() -> run(Mode.OVERWRITE, A), changedBack::incrementAndGet));
    assertEquals(0, changedBack.get());
    cluster.allReads = 200;
    cluster.beforeWrite = () -> follow(1, Mode.APPEND);
    WriteException.LoadConflict error = assertThrows(WriteException.LoadConflict.class, () -> Transaction.orUndo(
        () -> run(Mode.OVERWRITE, B), () -> {
          changedBack.incrementAndGet();
          throw new IllegalStateException("away");
        }));
    assertEquals(1, changedBack.get());
    assertEquals("away", error.getSuppressed()[0].getMessage());
  }

  /** The change may have been committed by the attempt whose answer was lost. */
  @Test
  void manyConflictsAfterALostAnswerLeaveTheOutcomeUnknown() {
    cluster.writes.add(LOSE);
    changeBeforeEveryWrite();
    assertThrows(WriteException.CommitUnknown.class, () -> run(Mode.APPEND, A));
  }

  @Test
  void manyConflictsWithoutALostAnswerAreAConflict() {
    changeBeforeEveryWrite();
    WriteException.LoadConflict error = assertThrows(WriteException.LoadConflict.class, () -> run(Mode.APPEND, A));
    assertTrue(error.getMessage().contains("was changed " + Commit.MAX_ATTEMPTS + " times in a row"), error.getMessage());
    assertEquals(Commit.MAX_ATTEMPTS, cluster.patches.size());
  }

  /** Somebody edits the table's labels all the time. */
  private void changeBeforeEveryWrite() {
    cluster.beforeWrite = () -> {
      cluster.touch(cluster.table());
      changeBeforeEveryWrite();
    };
  }

  /** A tenant may write anything into a status; it hides whether the snapshot is committed. */
  @Test
  void spoiltStatusAfterALostAnswerLeavesTheOutcomeUnknown() {
    cluster.writes.add(DO_AND_LOSE);
    cluster.beforeRead = this::spoilStatus;
    WriteException.CommitUnknown error = assertThrows(WriteException.CommitUnknown.class, () -> run(Mode.APPEND, A));
    assertTrue(error.getMessage().contains("status.history"), error.getMessage());
    assertEquals(1, cluster.patches.size());
  }

  private void spoilStatus() {
    cluster.status().remove("snapshot");
    cluster.status().put("history", "x");
    cluster.touch(cluster.table());
  }

  @Test
  void unknownCommitWithAKeyCanBeRepeated() throws IOException {
    cluster.writes.add(DO_AND_LOSE);
    cluster.allReads = 503;
    WriteException.CommitUnknown error =
        assertThrows(WriteException.CommitUnknown.class, () -> run(Mode.APPEND, Optional.of(KEY), A));
    assertTrue(error.getMessage().endsWith("Start it again with the same key: it is committed once in either case"));
    cluster.allReads = 200;
    assertTrue(run(Mode.APPEND, Optional.of(KEY), B).wasCommittedBefore());
    assertEquals(List.of(A.path()), storage.paths(cluster));
  }

  @Test
  void conflictAndSilenceIsUnknown() {
    cluster.writes.add(DO_LATER);
    cluster.beforeRead = () -> cluster.allReads = 504;
    assertThrows(WriteException.CommitUnknown.class, () -> run(Mode.APPEND, A));
    assertEquals(1, cluster.state().snapshotId());
  }

  /** It is asked again for as long as after a lost answer. */
  @Test
  void silenceAfterTheFirstConflictIsUnknown() {
    cluster.beforeWrite = () -> {
      cluster.touch(cluster.table());
      cluster.allReads = 504;
    };
    assertThrows(WriteException.CommitUnknown.class, () -> run(Mode.APPEND, A));
    assertTrue(timer.waited.compareTo(CompareAndSet.ANSWER_DEADLINE) >= 0);
  }

  @Test
  void followedCommitIsFound() throws IOException {
    cluster.spec().putObject("retention").put("snapshots", 0);
    for (int others = 1; others <= 2; others++) {
      for (Mode mode : List.of(Mode.APPEND, Mode.OVERWRITE).subList(0, 3 - others)) {
        cluster.status().remove(List.of("snapshot", "history"));
        cluster.writes.add(DO_AND_LOSE);
        int count = others;
        cluster.beforeRead = () -> follow(count, mode);
        assertEquals(1, run(Mode.APPEND, A).snapshotId());
        assertEquals(mode == Mode.APPEND ? 1 : 0, Collections.frequency(storage.paths(cluster), A.path()));
      }
    }
  }

  /** Another writer's commits. */
  private void follow(int count, Mode mode) {
    ArrayDeque<Fate> scripts = new ArrayDeque<>(cluster.writes);
    cluster.writes.clear();
    for (int number = 0; number < count; number++) {
      run(mode, Files.file("0000010" + number, "a"));
    }
    cluster.writes.addAll(scripts);
  }

  /** It was not carried out: the first of two others took its id, and the second one followed that. */
  @Test
  void aLostCommitIsNotTakenForTheOneThatTookItsId() throws IOException {
    cluster.spec().putObject("retention").put("snapshots", 0);
    cluster.writes.add(LOSE);
    cluster.beforeRead = () -> follow(2, Mode.APPEND);
    assertEquals(3, run(Mode.APPEND, A).snapshotId());
    assertEquals(1, Collections.frequency(storage.paths(cluster), A.path()));
  }

  /** A restore of etcd removed the snapshots on which the commit began, before it was carried out. */
  @Test
  void aLostCommitGoesOnTopOfARestoredTable() throws IOException {
    run(Mode.APPEND, C);
    ObjectNode copy = cluster.status().deepCopy();
    run(Mode.APPEND, Files.D);
    cluster.writes.add(LOSE);
    cluster.beforeRead = () -> {
      cluster.status().removeAll().setAll(copy);
      cluster.touch(cluster.table());
    };
    assertEquals(2, run(Mode.APPEND, A).snapshotId());
    assertEquals(List.of(C.path(), A.path()), storage.paths(cluster));
  }

  /** However many others came first, a refused commit was not made. */
  @Test
  void aConflictWithoutALostAnswerIsNoDoubt() {
    cluster.spec().putObject("retention").put("snapshots", 0);
    cluster.beforeWrite = () -> follow(3, Mode.OVERWRITE);
    assertEquals(4, run(Mode.APPEND, A).snapshotId());
  }

  @Test
  void hiddenCommitIsUnknown() {
    cluster.spec().putObject("retention").put("snapshots", 0);
    cluster.writes.add(LOSE);
    cluster.beforeRead = () -> follow(3, Mode.OVERWRITE);
    WriteException.CommitUnknown error = assertThrows(WriteException.CommitUnknown.class, () -> run(Mode.APPEND, A));
    assertTrue(error.getMessage().contains("the API server's last answer: snapshot 3 is there"));
  }

  @Test
  void keyFindsHiddenCommit() throws IOException {
    cluster.spec().putObject("retention").put("snapshots", 0);
    cluster.writes.add(DO_AND_LOSE);
    cluster.beforeRead = () -> follow(3, Mode.OVERWRITE);
    CommitResult result = run(Mode.APPEND, Optional.of(KEY), A);
    assertEquals(1, result.snapshotId());
    assertEquals(1, storage.paths(cluster).size());
  }

  @Test
  void overtakenOverwriteFails() {
    cluster.writes.add(LOSE);
    cluster.beforeRead = () -> follow(1, Mode.APPEND);
    conflict("was overtaken: it began on snapshot 0, and snapshot 1 was committed", () -> run(Mode.OVERWRITE, B));
  }

  @Test
  void interruptedWaitIsUnknown() {
    cluster.writes.add(DO_AND_LOSE);
    timer.isCancelled = true;
    WriteException.CommitUnknown error = assertThrows(WriteException.CommitUnknown.class, () -> run(Mode.APPEND, A));
    assertTrue(error.getMessage().contains("the API server's last answer: cancelled"));
  }

  static IntStream seeds() {
    return IntStream.range(0, 100);
  }

  @ParameterizedTest
  @MethodSource("seeds")
  void rowsAreLoadedOnceWhateverIsLost(int seed) throws IOException {
    Random random = new Random(seed);
    run(Mode.APPEND, C);
    List<Fate> fates = new ArrayList<>();
    random.ints(random.nextInt(7), 0, Fate.values().length).forEach(one -> fates.add(Fate.values()[one]));
    cluster.writes.addAll(fates);
    random.ints(random.nextInt(7), 0, 2).forEach(one -> cluster.reads.add(one == 0 ? 0 : 504));
    int others = random.nextInt(3);
    cluster.beforeRead = () -> follow(others, Mode.APPEND);
    run(Mode.APPEND, random.nextBoolean() ? Optional.of(KEY) : Optional.empty(), A);
    List<String> paths = storage.paths(cluster);
    assertEquals(1, Collections.frequency(paths, A.path()), fates.toString());
    assertEquals(1, Collections.frequency(paths, C.path()), fates.toString());
    assertEquals(paths.stream().distinct().count(), paths.size());
  }

  @ParameterizedTest
  @EnumSource(value = Mode.class, names = {"APPEND", "OVERWRITE"})
  void droppedTableIsReported(Mode mode) {
    cluster.writes.add(LOSE);
    cluster.beforeRead = () -> cluster.remove("colocatedtables");
    assertThrows(Cluster.NotThere.class, () -> run(mode, A));
  }
}
