package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.Logged;
import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationGroup;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.FakeTimer;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.cluster.WriteException.ReplicasMissing;
import dev.colocation.spark.fs.AgentClient;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.fs.ManifestEncoder;
import dev.colocation.spark.fs.ManifestStore;
import dev.colocation.spark.fs.TestTls;
import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import dev.colocation.spark.write.Change.Rebucket;
import dev.colocation.spark.write.Destination.AgentAccess;
import dev.colocation.spark.write.FileSender.SentFile;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** From the first look at a table to its commit, over TLS to agents: what must be on the nodes before. */
class TransactionTest {
  @TempDir static Path shared;
  private static TestTls tls;

  private final FakeCluster cluster = new FakeCluster();
  private final FakeTimer timer = new FakeTimer();
  private final Map<String, StoringAgent> agents = new TreeMap<>();
  private Path folder;
  private int retrySeconds;

  @BeforeAll
  static void makeCertificate() throws Exception {
    tls = TestTls.forNodes(shared, "node-1", "node-2", "node-3");
  }

  @BeforeEach
  void startAgents(@TempDir Path folder) throws IOException {
    this.folder = folder;
    java.nio.file.Files.copy(tls.authority(), folder.resolve("ca.crt"));
    java.nio.file.Files.writeString(folder.resolve("token"), "writer\n");
    for (String node : List.of("node-1", "node-2", "node-3")) {
      agents.put(node, new StoringAgent(tls, node));
    }
    tellAgents();
  }

  @AfterEach
  void stopAgents() {
    agents.values().forEach(StoringAgent::close);
  }

  private void tellAgents() {
    var urls = FakeCluster.JSON.createObjectNode();
    agents.forEach((node, agent) -> urls.put(node, agent.url()));
    cluster.objects.get("/api/v1/namespaces/shop/configmaps/sales-spark").putObject("data")
        .put("agents.json", urls.toString());
  }

  private Transaction begin() {
    AgentAccess access = new AgentAccess(
        folder.resolve("token").toString(), folder.resolve("ca.crt").toString(), retrySeconds);
    return Transaction.begin(cluster, "shop", "orders", Duration.ofSeconds(5), access, timer);
  }

  private SentFile send(Transaction transaction, String load, int bucket) throws IOException {
    byte[] content = load.repeat(100).getBytes(java.nio.charset.StandardCharsets.UTF_8);
    String path = "data/day=a/part-" + load + "-1_" + String.format(Locale.ROOT, "%05d", bucket) + ".c000.zstd.parquet";
    DataFile file = new DataFile(path, bucket, Files.day("a"), 10, content.length, StoredManifest.sha256(content), KeyRange.NONE);
    Path local = java.nio.file.Files.write(folder.resolve(load), content);
    return new FileSender(transaction.destination()).send(file, local);
  }

  private static CommitResult append(Transaction transaction, SentFile... sent) throws IOException {
    return append(transaction, Optional.empty(), sent);
  }

  private static CommitResult append(Transaction transaction, Optional<CommitKey> key, SentFile... sent) throws IOException {
    return transaction.commit(load(Mode.APPEND, sent), List.of(sent), key);
  }

  private static NewFiles load(Mode mode, SentFile... sent) {
    return new NewFiles(mode, List.of(sent).stream().map(SentFile::file).toList(), Buckets.asGroup(2));
  }

  private List<String> holders(String path) {
    List<String> found = new ArrayList<>();
    agents.forEach((node, agent) -> {
      if (agent.files.containsKey(path)) {
        found.add(node);
      }
    });
    return found;
  }

  @Test
  void filesAreOnTheirBucketsNodesAndTheManifestEverywhere() throws IOException {
    Transaction transaction = begin();
    SentFile first = send(transaction, "0000000a", 0);
    SentFile second = send(transaction, "0000000b", 1);
    CommitResult result = append(transaction, first, second);
    assertEquals(List.of("node-1", "node-2"), first.nodes());
    assertEquals(List.of("node-2", "node-3"), holders(second.file().path()));
    assertEquals(List.of("node-1", "node-2", "node-3"), holders("manifests/" + result.manifestSha256() + ".json.zst"));
    assertEquals(new CommitResult(1, 20, 2, 1600, 0, List.of(), List.of(), result.manifestSha256(), result.changed(), false), result);
    assertEquals(result.manifestSha256(), cluster.state().snapshot().orElseThrow().manifestSha256());
    assertEquals(2, append(begin(), send(transaction, "0000000c", 0)).snapshotId());
  }

  /** One old agent is enough: all nodes get a manifest that all of them read. */
  @Test
  void anAgentThatDoesNotReadFormat2() throws IOException {
    agents.get("node-2").isOld = true;
    Transaction transaction = begin();
    SentFile real = send(transaction, "ffffffff", 0);
    List<SentFile> sent = new ArrayList<>(List.of(real));
    for (int number = 1; number < ManifestEncoder.FRAMED_FROM_FILES; number++) {
      DataFile file = Files.file(String.format(Locale.ROOT, "%08x", number), "a");
      real.nodes().forEach(node -> agents.get(node).files.put(file.path(), new byte[0]));
      sent.add(new SentFile(file, real.nodes()));
    }
    CommitResult result = append(transaction, sent.toArray(SentFile[]::new));
    byte[] stored = agents.get("node-1").files.get("manifests/" + result.manifestSha256() + ".json.zst");
    assertFalse(ManifestStore.isFramed(stored));
    assertEquals(sent.size(), transaction.files(result.manifestSha256()).size());
    agents.get("node-2").isOld = false;
    agents.get("node-3").failures = Integer.MAX_VALUE; // one that does not answer may read either
    CommitResult next = begin().commit(load(Mode.OVERWRITE, sent.toArray(SentFile[]::new)), sent, Optional.empty());
    assertTrue(ManifestStore.isFramed(agents.get("node-1").files.get("manifests/" + next.manifestSha256() + ".json.zst")));
  }

  @Test
  void destinationIsSerializable() throws Exception {
    Destination destination = begin().destination();
    SentFile sent = new SentFile(Files.NULL, List.of("node-1"));
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream stream = new ObjectOutputStream(bytes)) {
      stream.writeObject(destination);
      stream.writeObject(sent);
    }
    try (ObjectInputStream stream = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
      assertEquals(destination, stream.readObject());
      assertEquals(sent, stream.readObject());
    }
  }

  @Test
  void substituteHoldsTheCopyOfAFailedNode() throws IOException {
    agents.get("node-2").close();
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    assertEquals(List.of("node-1", "node-3"), sent.nodes());
    CommitResult result = append(transaction, sent);
    assertEquals(1, result.replicasMissing());
    Substitute substitute = result.substitutes().get(0);
    assertEquals(List.of("node-2", "node-3"), List.of(substitute.away(), substitute.node()));
    assertTrue(substitute.reason().contains("Unreachable"), substitute.reason());
  }

  @Test
  void nodeLostAfterUploadIsSubstituted() throws IOException {
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    agents.get("node-2").close();
    assertEquals(1, append(transaction, sent).substitutes().size());
    assertTrue(agents.get("node-3").holds(sent.file()));
  }

  @Test
  void fullNodeIsSubstitutedWithoutRetry() throws IOException {
    retrySeconds = 30;
    agents.get("node-2").refusal = 507;
    Transaction transaction = begin();
    assertEquals(List.of("node-1", "node-3"), send(transaction, "0000000a", 0).nodes());
    assertEquals(1, agents.get("node-2").requests);
  }

  @Test
  void missingMajorityNamesEachNode() throws IOException {
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    agents.get("node-2").close();
    agents.get("node-3").close();
    ReplicasMissing sending = assertThrows(ReplicasMissing.class, () -> send(transaction, "0000000b", 0));
    assertTrue(sending.getMessage().matches("ReplicasMissing: bucket 0 of shop/orders-12345678: 1 of 2 nodes took data/.*, at least 2 must, "
        + "and no other node of the group did instead; node-2: Unreachable: .*; node-3: .*"), sending.getMessage());
    ReplicasMissing committing = assertThrows(ReplicasMissing.class, () -> append(transaction, sent));
    assertTrue(committing.getMessage().startsWith("ReplicasMissing: bucket 0 of shop/orders-12345678: 1 of its 2 nodes hold the manifest and "
        + "the new files, at least 2 must, and no other node of the group does instead; node-1: "), committing.getMessage());
    assertTrue(cluster.state().snapshot().isEmpty());
  }

  @Test
  void manifestOfAnEmptiedTableNeedsAMajority() throws IOException {
    append(begin(), send(begin(), "0000000a", 0));
    Transaction transaction = begin();
    agents.get("node-2").close();
    CommitResult emptied = transaction.commit(load(Mode.OVERWRITE), List.of(), Optional.empty());
    assertEquals(List.of(0, List.of()), List.of(emptied.replicasMissing(), emptied.substitutes()));
    agents.get("node-3").close();
    assertThrows(ReplicasMissing.class, () -> begin().commit(load(Mode.OVERWRITE), List.of(), Optional.empty()));
  }

  @Test
  void missingFilesOfEarlierLoadsAreIgnored() throws IOException {
    SentFile old = send(begin(), "0000000a", 0);
    append(begin(), old);
    agents.get("node-2").files.remove(old.file().path());
    assertEquals(0, append(begin(), send(begin(), "0000000b", 0)).replicasMissing());
  }

  /** Another content under the file's name is no copy of it. */
  @Test
  void aNodeWithOtherContentIsSubstituted() throws IOException {
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    agents.get("node-2").isVerifying = true;
    agents.get("node-2").files.put(sent.file().path(), new byte[3]);
    CommitResult result = append(transaction, sent);
    assertEquals(List.of("node-2", "node-3"),
        List.of(result.substitutes().get(0).away(), result.substitutes().get(0).node()));
    assertTrue(agents.get("node-3").holds(sent.file()));
  }

  /** A node that holds all files of the manifest counts only with the manifest itself. */
  @Test
  void aNodeWithoutTheManifestDoesNotCount() throws IOException {
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    agents.get("node-2").lacksManifest = true;
    CommitResult result = append(transaction, sent);
    assertEquals(List.of("node-2", "node-3"),
        List.of(result.substitutes().get(0).away(), result.substitutes().get(0).node()));
  }

  /** The node that does not find the manifest is no replica of the commit, but it has the file. */
  @Test
  void aSubstituteCopiesFromANodeWithoutTheManifest() throws IOException {
    placeBuckets("node-1", "node-2");
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    agents.get("node-1").lacksManifest = true;
    Substitute substitute = append(transaction, sent).substitutes().get(0);
    assertEquals("node-1", substitute.away());
    assertTrue(agents.get(substitute.node()).holds(sent.file()));
  }

  /** It can be no substitute, so it gets no copies either. */
  @Test
  void aNodeWithoutTheManifestGetsNoCopies() throws IOException {
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    agents.get("node-2").files.remove(sent.file().path());
    agents.get("node-3").lacksManifest = true;
    assertThrows(ReplicasMissing.class, () -> append(transaction, sent));
    assertFalse(agents.get("node-3").holds(sent.file()));
  }

  /** Neither to a substitute to which the bucket has moved, nor to a node that has refused it. */
  @Test
  void aCommitSendsNoFileTwice() throws IOException {
    agents.get("node-2").refusal = 507;
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    moveFirstBucket();
    ((ArrayNode) cluster.group().path("status").path("backendsPerBucketSeq").path(1)).removeAll().add("node-1").add("node-3");
    assertEquals(1, append(transaction, sent).replicasMissing());
    agents.forEach((node, agent) -> assertEquals(1, Collections.frequency(agent.sent, sent.file().path()), node));
  }

  /** A substitute that lost its copy since is none: what is committed is on a majority of nodes at that moment. */
  @Test
  void aSubstituteThatLostItsCopyDoesNotCount() throws IOException {
    agents.get("node-2").refusal = 507;
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    assertEquals(List.of("node-1", "node-3"), sent.nodes());
    agents.get("node-3").files.remove(sent.file().path());
    assertThrows(ReplicasMissing.class, () -> append(transaction, sent));
    assertTrue(cluster.state().snapshot().isEmpty());
  }

  private void moveFirstBucket() {
    ((ArrayNode) cluster.group().path("status").path("backendsPerBucketSeq").path(0)).removeAll().add("node-2").add("node-3");
  }

  @Test
  void newFilesFollowAMovedBucket() throws IOException {
    Transaction transaction = begin();
    SentFile moved = send(transaction, "0000000a", 0);
    SentFile stays = send(transaction, "0000000b", 1);
    moveFirstBucket();
    assertEquals(0, append(transaction, moved, stays).replicasMissing());
    assertTrue(agents.get("node-3").holds(moved.file()));
    assertFalse(agents.get("node-1").holds(stays.file()));
  }

  /** As after a drain, or a move of the table to a group on other nodes: the agent is not named any more, and still answers. */
  @Test
  void newFilesAreCopiedFromANodeThatLeftTheGroup() throws IOException {
    placeBuckets("node-1", "node-2");
    Transaction transaction = begin();
    SentFile moved = send(transaction, "0000000a", 0);
    assertEquals(List.of("node-1"), moved.nodes());
    placeBuckets("node-3", "node-2");
    StoringAgent left = agents.remove("node-1");
    tellAgents();
    agents.put("node-1", left);
    assertEquals(0, append(transaction, moved).replicasMissing());
    assertTrue(agents.get("node-3").holds(moved.file()));
  }

  /** A load began before the node's agent was there. */
  @Test
  void newFilesAreCopiedToANodeThatJoinedTheGroup() throws IOException {
    StoringAgent joined = agents.remove("node-3");
    tellAgents();
    placeBuckets("node-1", "node-2");
    Transaction transaction = begin();
    SentFile moved = send(transaction, "0000000a", 0);
    agents.put("node-3", joined);
    tellAgents();
    placeBuckets("node-3", "node-2");
    assertEquals(0, append(transaction, moved).replicasMissing());
    assertTrue(joined.holds(moved.file()));
  }

  /** With one replica each. */
  private void placeBuckets(String... nodes) {
    ArrayNode buckets = ((ObjectNode) cluster.group().path("status")).putArray("backendsPerBucketSeq");
    List.of(nodes).forEach(node -> buckets.addArray().add(node));
  }

  @Test
  void damagedCopyIsReadFromAnotherNode() throws IOException {
    Transaction transaction = begin();
    SentFile moved = send(transaction, "0000000a", 0);
    agents.get("node-1").files.put(moved.file().path(), new byte[3]);
    moveFirstBucket();
    append(transaction, moved);
    assertEquals(moved.file().bytes(), agents.get("node-3").files.get(moved.file().path()).length);
  }

  @Test
  void restartingAgentIsWaitedFor() throws IOException {
    retrySeconds = 30;
    agents.get("node-2").failures = 2;
    assertEquals(List.of("node-1", "node-2"), send(begin(), "0000000a", 0).nodes());
    agents.get("node-1").failures = 1;
    agents.get("node-1").failure = 429;
    agents.get("node-1").retryAfter = "1";
    long started = System.nanoTime();
    assertEquals(List.of("node-1", "node-2"), send(begin(), "0000000b", 0).nodes());
    assertTrue(System.nanoTime() - started >= 900_000_000L, "it asked to be left alone for a second");
  }

  /** Commits a file; the digest of its snapshot's manifest. */
  private String manifestOfOneFile() throws IOException {
    Transaction transaction = begin();
    append(transaction, send(transaction, "0000000a", 0));
    return cluster.state().snapshot().orElseThrow().manifestSha256();
  }

  @Test
  void aManifestIsReadOnceOneOfItsAgentsIsBack() throws IOException {
    retrySeconds = 30;
    String manifest = manifestOfOneFile();
    agents.values().forEach(agent -> agent.failures = 2);
    assertEquals(1, begin().files(manifest).size());
  }

  @Test
  void eachAgentsAnswerIsInTheErrorOfAManifestThatNoneGives() throws IOException {
    retrySeconds = 30;
    String manifest = manifestOfOneFile();
    agents.values().forEach(agent -> {
      agent.failures = Integer.MAX_VALUE;
      agent.failure = 404;
    });
    String said = assertThrows(WriteException.NoAgentAnswers.class, () -> begin().files(manifest)).getMessage();
    agents.keySet().forEach(node -> assertTrue(said.contains(node + ": "), said));
    assertTrue(said.contains("asked for 0 s"), "none of them will have it in a while: " + said);
  }

  @Test
  void unavailableAgentIsNotWaitedForTwice() throws IOException {
    retrySeconds = 2;
    Transaction transaction = begin();
    agents.get("node-2").close();
    long started = System.nanoTime();
    send(transaction, "0000000a", 0);
    long first = System.nanoTime() - started;
    for (int number = 0; number < 20; number++) {
      send(transaction, "000001" + number, 0);
    }
    long others = System.nanoTime() - started - first;
    assertTrue(first > 500_000_000L && others < 20 * 1_500_000_000L, first + " ns, then " + others + " ns");
  }

  @Test
  void movedAgentIsFoundInTheAddressFile() throws IOException {
    retrySeconds = 30;
    Transaction transaction = begin();
    agents.get("node-2").close();
    agents.put("node-2", new StoringAgent(tls, "node-2"));
    java.nio.file.Files.writeString(
        folder.resolve("agents.json"), "{\"node-2\": \"" + agents.get("node-2").url() + "\"}");
    SentFile sent = send(transaction, "0000000a", 0);
    assertEquals(List.of("node-1", "node-2"), sent.nodes());
    assertTrue(agents.get("node-2").holds(sent.file()));
  }

  @Test
  void tokensAreNotSentOverPlainHttp() {
    AgentClient client =
        new AgentClient("node-1", "http://127.0.0.1:1", folder.resolve("token"), folder.resolve("ca.crt"));
    IOException error = assertThrows(IOException.class, () -> client.read(
        new AgentClient.Folder("shop", "orders-12345678"), "data/x", Duration.ofSeconds(9)));
    assertTrue(error.getMessage().startsWith(
        "agent URL 'http://127.0.0.1:1' is not allowed; it must be https://<node's or pod's IP>:<port>"), error.getMessage());
  }

  @Test
  void repetitionIsFoundWithoutNodes() throws IOException {
    CommitKey key = new CommitKey("stream", 0);
    assertTrue(begin().committed(key).isEmpty());
    Transaction transaction = begin();
    CommitResult first = append(transaction, Optional.of(key), send(transaction, "0000000a", 0));
    SentFile again = send(transaction, "0000000b", 0);
    agents.values().forEach(StoringAgent::close);
    CommitResult second = append(transaction, Optional.of(key), again);
    assertTrue(second.wasCommittedBefore());
    assertEquals(first.manifestSha256(), second.manifestSha256());
    assertEquals(second, transaction.committed(key).orElseThrow());
  }

  /** What programs and people learn of a statement's commit: the list of the driver's changes, and its log. */
  @Test
  void aStatementsCommitIsListedAndLogged() throws IOException {
    CommitKey key = new CommitKey("stream", 0);
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    agents.get("node-2").close();
    long before = CommitLog.count();
    List<String> log = Logged.by(Transaction.class,
        () -> transaction.commit("lake.shop.orders", load(Mode.APPEND, sent), List.of(sent), Optional.of(key)));
    String listed = CommitLog.since(before);
    assertTrue(listed.startsWith("[{\"table\":\"lake.shop.orders\",\"change\":\"append\",\"rows\":10,\"files\":1,"), listed);
    assertEquals(2, log.size(), log.toString());
    assertTrue(log.get(0).startsWith("INFO lake.shop.orders: append committed 10 rows in 1 files as snapshot 1; rows "), log.get(0));
    assertTrue(log.get(1).startsWith("WARN lake.shop.orders: 1 copies of new files are still to be made by the operator: ["), log.get(1));
    assertEquals(List.of("INFO lake.shop.orders: append was committed before, as snapshot 1"), Logged.by(Transaction.class,
        () -> transaction.commit("lake.shop.orders", load(Mode.APPEND, sent), List.of(sent), Optional.of(key))));
    assertTrue(CommitLog.since(before + 1).contains("\"was_committed_before\":true"), "once for each statement");
  }

  @Test
  void invalidStatusLeavesAKeyUnknown() {
    Transaction transaction = begin();
    cluster.status().put("commits", "gone");
    assertThrows(WriteException.InvalidTable.class, () -> transaction.committed(new CommitKey("stream", 0)));
  }

  @Test
  void overwriteBeginsOnTheSnapshotItRead() throws IOException {
    CommitResult first = append(begin(), send(begin(), "0000000a", 0));
    CommitResult second = append(begin(), send(begin(), "0000000b", 0));
    Transaction stale = begin().startedOn(1, first.manifestSha256());
    SentFile sent = send(stale, "0000000c", 0);
    CommitTest.conflict("it began on snapshot 1, and snapshot 2 was committed meanwhile",
        () -> stale.commit(load(Mode.OVERWRITE, sent), List.of(sent), Optional.empty()));
    CommitTest.conflict("1 of the partitions that it replaces were changed",
        () -> stale.commit(load(Mode.OVERWRITE_PARTITIONS, sent), List.of(sent), Optional.empty()));
    CommitTest.conflict("began on snapshot 9, which the table no longer keeps",
        () -> begin().startedOn(9, second.manifestSha256()));
    CommitTest.conflict("it began on snapshot 0, and snapshot 2",
        () -> begin().startedOn(0, Manifest.NOTHING).commit(load(Mode.OVERWRITE, sent), List.of(sent), Optional.empty()));
    Transaction current = begin().startedOn(2, second.manifestSha256());
    assertEquals(3, current.commit(load(Mode.OVERWRITE, sent), List.of(sent), Optional.empty()).snapshotId());
  }

  /** Commits after a restore of etcd get ids that lost snapshots had. */
  @Test
  void overwriteOfASnapshotLostWithEtcdIsAConflict() throws IOException {
    append(begin(), send(begin(), "0000000a", 0));
    ObjectNode copy = cluster.status().deepCopy();
    CommitResult lost = append(begin(), send(begin(), "0000000b", 0));
    cluster.status().removeAll().setAll(copy);
    assertEquals(lost.snapshotId(), append(begin(), send(begin(), "0000000c", 0)).snapshotId());
    String words = "began on snapshot 2, which the table no longer keeps";
    CommitTest.conflict(words, () -> begin().startedOn(2, lost.manifestSha256()));
    append(begin(), send(begin(), "0000000d", 0));
    CommitTest.conflict(words, () -> begin().startedOn(2, lost.manifestSha256()));
  }

  @Test
  void unsentFileIsNotCommitted() throws IOException {
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    IllegalArgumentException error = assertThrows(IllegalArgumentException.class,
        () -> transaction.commit(load(Mode.APPEND, sent), List.of(), Optional.empty()));
    assertTrue(error.getMessage().contains("not sent: [" + sent.file().path() + "]"), error.getMessage());
    assertThrows(IllegalArgumentException.class,
        () -> transaction.commit(load(Mode.APPEND, sent), List.of(sent, sent), Optional.empty()));
  }

  @Test
  void aRecreatedTableGetsNoFilesOfTheOldOne() throws IOException {
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    cluster.recreate();
    CommitTest.conflict("was dropped and recreated during the load", () -> append(transaction, sent));
  }

  /** It has answered: when it restarts a moment later, it is waited for. */
  @Test
  void anAgentThatRefusedAFileIsNotAway() throws IOException {
    retrySeconds = 30;
    Transaction transaction = begin();
    agents.get("node-2").refusal = 507;
    assertEquals(List.of("node-1", "node-3"), send(transaction, "0000000a", 0).nodes());
    agents.get("node-2").refusal = 0;
    agents.get("node-2").failures = 1;
    assertEquals(List.of("node-1", "node-2"), send(transaction, "0000000b", 0).nodes());
  }

  @Test
  void otherBucketCountIsAConflict() throws IOException {
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    CommitTest.conflict("had 3 buckets when the load began, now it has 2. Nothing was changed; load again",
        () -> transaction.commit(new NewFiles(Mode.APPEND, List.of(sent.file()), Buckets.asGroup(3)), List.of(sent), Optional.empty()));
    CommitTest.conflict("had 4 (2 of the group) buckets when the load began, now it has 2. Nothing was changed; load again",
        () -> transaction.commit(new NewFiles(Mode.APPEND, List.of(sent.file()), new Buckets(2, 4)), List.of(sent), Optional.empty()));
    CommitTest.conflict("had 6 (3 of the group) buckets when the load began, now it has 2",
        () -> transaction.commit(new Rebucket(Set.of(), List.of(sent.file()), new Buckets(3, 6)), List.of(sent), Optional.empty()));
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', textBlock = """
      colocationgroups | ColocationGroup shop/sales does not exist
      configmaps       | ConfigMap shop/sales-spark does not exist
      map              | group sales has no map yet (InsufficientNodes)
      short map        | group sales has 2 buckets, but its map has 1
      accepted         | the operator has not accepted it yet
      foreign          | NamespaceNotAllowed: group accounts/ledger allows namespaces [], and this is namespace shop
      agents           | bucket 0 is on nodes node-1, node-2; of the group's nodes 1 have a ready agent; at least 2 must
      silence          | ColocatedTable shop/orders: the API server answered 503: as set""")
  void missingPrerequisitesAreReported(String what, String words) {
    switch (what) {
      case "map" -> cluster.group().putObject("status").put("reason", "InsufficientNodes");
      case "short map" -> cluster.group().withObject("/status").putArray("backendsPerBucketSeq").addArray().add("node-1");
      case "accepted" -> cluster.status().remove("accepted");
      case "foreign" -> {
        cluster.status().put("group", "accounts/ledger");
        var group = cluster.group().deepCopy();
        group.withObject("/metadata").put("namespace", "accounts").put("name", "ledger");
        cluster.objects.put("/apis/colocation.dev/v1alpha1/namespaces/accounts/colocationgroups/ledger", group);
        cluster.objects.put("/api/v1/namespaces/shop/configmaps/ledger.accounts-spark-shared",
            cluster.objects.get("/api/v1/namespaces/shop/configmaps/sales-spark"));
      }
      case "agents" -> {
        agents.remove("node-1").close();
        agents.remove("node-3").close();
        tellAgents();
      }
      case "silence" -> cluster.allReads = 503;
      default -> cluster.remove(what);
    }
    WriteException.NotReady error = assertThrows(WriteException.NotReady.class, this::begin);
    assertTrue(error.getMessage().startsWith("NotReady: table shop.orders cannot be loaded after 5 s: " + words), error.getMessage());
  }

  /** A load's work is done by then: the API server is waited for as long as after the compare-and-set. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aCommitWaitsTwoMinutesForTheApiServer(boolean hasKey) throws IOException {
    Optional<CommitKey> key = hasKey ? Optional.of(new CommitKey("stream", 0)) : Optional.empty();
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    cluster.reads.addAll(Collections.nCopies(110, 0));
    assertEquals(1, append(transaction, key, sent).snapshotId());
    cluster.allReads = 503;
    timer.waited = Duration.ZERO;
    WriteException.NotReady error =
        assertThrows(WriteException.NotReady.class, () -> append(transaction, key, sent));
    assertTrue(error.getMessage().contains("ColocatedTable shop/orders: the API server answered 503"), error.getMessage());
    assertEquals(Duration.ofSeconds(120), timer.waited);
  }

  @ParameterizedTest
  @CsvSource({"0, 5", "110, 115"})
  void operatorsTimeStartsWhenTheApiServerAnswers(int silentSeconds, int givenUpAfterSeconds) throws IOException {
    Transaction transaction = begin();
    SentFile sent = send(transaction, "0000000a", 0);
    cluster.reads.addAll(Collections.nCopies(silentSeconds, 0));
    cluster.status().remove("accepted");
    WriteException.NotReady error = assertThrows(WriteException.NotReady.class, () -> append(transaction, sent));
    assertTrue(error.getMessage().contains("after 5 s: the operator has not accepted it yet"), error.getMessage());
    assertTrue(Math.abs(timer.waited.toSeconds() - givenUpAfterSeconds) <= 1, timer.waited.toString());
  }

  @Test
  void missingTableIsNotWaitedFor() {
    cluster.remove("colocatedtables");
    WriteException error = assertThrows(Cluster.NotThere.class, this::begin);
    assertEquals("ColocatedTable shop/orders does not exist", error.getMessage());
  }
}
