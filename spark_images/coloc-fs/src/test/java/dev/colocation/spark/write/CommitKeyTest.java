package dev.colocation.spark.write;

import static dev.colocation.spark.write.CommitTest.conflict;
import static dev.colocation.spark.write.Files.A;
import static dev.colocation.spark.write.Files.B;
import static dev.colocation.spark.write.Files.C;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.Logged;
import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.CommitKey.CommitRecord;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.FakeTimer;
import dev.colocation.spark.cluster.Json;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.cluster.WriteException.InvalidOption;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A table takes each version of a writer once. */
class CommitKeyTest {
  private final FakeCluster cluster = new FakeCluster();
  private final ManifestMemory storage = new ManifestMemory();

  private CommitResult run(Mode mode, String writer, long version, DataFile... files) {
    ColocatedTable began = cluster.state();
    Optional<CommitKey> key = writer.isEmpty() ? Optional.empty() : Optional.of(new CommitKey(writer, version));
    try {
      NewFiles change = new NewFiles(mode, List.of(files), Buckets.asGroup(2));
      return new Commit(new Cluster(cluster, new FakeTimer()), storage, change, key, began, new FakeTimer()).run(began);
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  @Test
  void repetitionReturnsTheFirstResult() throws IOException {
    CommitResult first = run(Mode.APPEND, "stream", 3, A);
    run(Mode.APPEND, "", 0, C);
    CommitResult second = run(Mode.APPEND, "stream", 3, B);
    assertTrue(second.wasCommittedBefore());
    assertEquals(new CommitResult(1, 0, 0, 0, 0, List.of(), List.of(), first.manifestSha256(), first.changed(), true), second);
    assertEquals(List.of(A.path(), C.path()), storage.paths(cluster));
    assertEquals(2, storage.stored.size(), "nothing is published for a repetition");
  }

  @Test
  void olderVersionIsARepetition() throws IOException {
    run(Mode.APPEND, "stream", 3, A);
    assertTrue(run(Mode.APPEND, "stream", 2, B).wasCommittedBefore());
    assertFalse(run(Mode.APPEND, "stream", 4, B).wasCommittedBefore());
    assertFalse(run(Mode.APPEND, "other", 0, C).wasCommittedBefore());
    assertEquals(List.of("other 0 3", "stream 4 2"), cluster.commits());
    assertEquals(List.of(A.path(), B.path(), C.path()), storage.paths(cluster));
  }

  @Test
  void repeatedOverwriteKeepsLaterRows() throws IOException {
    run(Mode.OVERWRITE, "nightly", 0, A);
    run(Mode.APPEND, "", 0, C);
    assertTrue(run(Mode.OVERWRITE, "nightly", 0, B).wasCommittedBefore());
    assertEquals(List.of(A.path(), C.path()), storage.paths(cluster));
  }

  @Test
  void twoDriversWithOneKeyCommitOnce() throws IOException {
    cluster.beforeWrite = () -> run(Mode.APPEND, "stream", 3, A);
    assertTrue(run(Mode.APPEND, "stream", 3, B).wasCommittedBefore());
    assertEquals(List.of(A.path()), storage.paths(cluster));
  }

  @Test
  void commitWithoutAKeyKeepsTheKeys() {
    run(Mode.APPEND, "stream", 3, A);
    run(Mode.APPEND, "", 0, C);
    assertFalse(cluster.patches.get(1).path("status").has("commits"));
    assertEquals(List.of("stream 3 1"), cluster.commits());
  }

  @Test
  void theNewestHundredWritersAreKept() {
    IntStream.range(0, 103).forEach(number -> run(Mode.APPEND, "writer-" + number, 0, Files.file("load" + number, "a")));
    List<String> commits = cluster.commits();
    assertEquals(100, commits.size());
    assertEquals(List.of("writer-102 0 103", "writer-3 0 4"), List.of(commits.get(0), commits.get(99)));
  }

  @Test
  void laterVersionsFieldsOfCommitsAreKept() {
    run(Mode.APPEND, "stream", 3, A);
    ((ObjectNode) cluster.status().path("commits").path(0)).put("later", 7);
    run(Mode.APPEND, "other", 0, C);
    assertEquals(7, cluster.status().path("commits").path(1).path("later").asInt());
  }

  @ParameterizedTest
  @ValueSource(strings = {
      "{\"writer\": \"\", \"version\": 1, \"snapshotId\": 1}", "{\"writer\": \"w\", \"version\": -1, \"snapshotId\": 1}",
      "{\"writer\": \"w\", \"version\": 1}", "{\"writer\": 7, \"version\": 1, \"snapshotId\": 1}",
      "{\"writer\": \"w\", \"version\": 1.5, \"snapshotId\": 1}", "{\"writer\": \"w\", \"version\": 1e30, \"snapshotId\": 1}"})
  void onlyAnOverwriteReplacesInvalidCommits(String record) throws IOException {
    run(Mode.APPEND, "stream", 3, A);
    cluster.status().withArray("commits").add(FakeCluster.parsed(record));
    WriteException.InvalidTable error =
        assertThrows(WriteException.InvalidTable.class, () -> run(Mode.APPEND, "new", 0, B));
    assertTrue(error.getMessage().startsWith("InvalidStatus: the status of table shop.orders cannot be understood: "
        + "status.commits[1]."), error.getMessage());
    assertTrue(run(Mode.APPEND, "stream", 3, B).wasCommittedBefore(), "what can be understood of it holds");
    run(Mode.OVERWRITE, "", 0, B);
    assertEquals(List.of("stream 3 1"), cluster.commits());
    assertEquals(List.of(B.path()), storage.paths(cluster));
  }

  @Test
  void tooLongListIsInvalid() {
    List<ObjectNode> records = new ArrayList<>();
    IntStream.range(0, 101).forEach(number -> records.add(CommitRecord.of(new CommitKey("w" + number, 0), 1).json()));
    cluster.status().putArray("commits").addAll(records);
    WriteException.InvalidTable error = assertThrows(WriteException.InvalidTable.class, () -> run(Mode.APPEND, "", 0, A));
    assertTrue(error.getMessage().contains("status.commits has 101 items; allowed: at most 100"));
  }

  @Test
  void clusterWithoutTheFieldTakesTheCommit() throws IOException {
    assertEquals(List.of(), Logged.by(CompareAndSet.class, () -> run(Mode.APPEND, "stream", 3, C)));
    cluster.pruned.add("commits");
    cluster.status().remove("commits");
    List<String> warnings = Logged.by(CompareAndSet.class, () -> assertEquals(2, run(Mode.APPEND, "stream", 4, A).snapshotId()));
    assertEquals(List.of("WARN table shop.orders did not keep the commit's key (stream, version 4): a repetition would be committed "
        + "again. The cluster's ColocatedTable definition is older than this library; apply the CRDs of its release (helm does not)"),
        warnings);
    assertEquals(List.of(), Logged.by(CompareAndSet.class, () -> run(Mode.APPEND, "", 0)), "a commit without a key");
    cluster.writes.add(FakeCluster.Fate.DO_AND_LOSE);
    assertEquals(4, run(Mode.APPEND, "stream", 5, B).snapshotId());
    assertEquals(List.of(C.path(), A.path(), B.path()), storage.paths(cluster));
  }

  @Test
  void keysAreBounded() {
    assertThrows(InvalidOption.class, () -> new CommitKey("", 0));
    assertThrows(InvalidOption.class, () -> new CommitKey("x".repeat(129), 0));
    assertThrows(InvalidOption.class, () -> new CommitKey("x", -1));
    new CommitKey("\uD83D\uDE00".repeat(128), Json.MAX_EXACT);
  }

  @Test
  void overtakenOverwriteWithAKeyFails() {
    cluster.beforeWrite = () -> run(Mode.APPEND, "other", 0, C);
    conflict("was overtaken: it began on snapshot 0", () -> run(Mode.OVERWRITE, "nightly", 0, A));
    assertEquals(List.of("other 0 1"), cluster.commits());
  }
}
