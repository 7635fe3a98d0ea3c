package dev.colocation.spark.fs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.colocation.spark.fs.AgentAddresses.RecentFailures;
import dev.colocation.spark.fs.ReadMetrics.ReadCounters;
import java.io.EOFException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FSDataInputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ReadingTest {
  @TempDir static Path certificates;
  private static TestTls tls;

  @TempDir Path folder;
  private TestTable table;
  private FakeAgent first;
  private FakeAgent second;
  private byte[] content;
  private ReadCounters.Totals before;

  @BeforeAll
  static void makeCertificate() throws Exception {
    tls = TestTls.forNodes(certificates, "node-1", "node-2", "node-3");
  }

  @BeforeEach
  void startAgents() throws Exception {
    table = new TestTable(folder, tls.authority());
    content = table.contents.get(TestTable.FIRST);
    first = new FakeAgent(tls);
    second = new FakeAgent(tls);
    table.agents.put("node-1", first.url());
    table.agents.put("node-2", second.url());
    before = ReadCounters.OF_THIS_JVM.totals();
  }

  @AfterEach
  void stopAgents() {
    first.close();
    second.close();
  }

  private void hold(FakeAgent agent, String path) {
    agent.files.put(TestTable.target(path), table.contents.get(path));
  }

  private ReadCounters.Totals counted() {
    return ReadCounters.OF_THIS_JVM.totals().minus(before);
  }

  private byte[] readAll(String path) throws IOException {
    try (FSDataInputStream stream = table.open().open(table.location(path))) {
      return stream.readAllBytes();
    }
  }

  /** The replica on this node's disk is read, and no agent is asked. */
  @Test
  void readsTheLocalReplica() throws Exception {
    table.putOnLocalDisk(TestTable.FIRST, content);
    assertArrayEquals(content, readAll(TestTable.FIRST));
    assertEquals(new ReadCounters.Totals(content.length, 0, 1, 0), counted());
  }

  /** Without a local replica another node's is read, over few connections. */
  @Test
  void readsARemoteReplica() throws Exception {
    hold(first, TestTable.FIRST);
    hold(second, TestTable.FIRST);
    assertArrayEquals(content, readAll(TestTable.FIRST));
    assertEquals(new ReadCounters.Totals(0, content.length, 0, 1), counted());
    assertEquals(1, first.clientPorts.size() + second.clientPorts.size());
  }

  /** Another namespace's files are not on the disk that an executor sees; its own node's agent gives them. */
  @Test
  void asksTheAgentOfItsOwnNodeFirst() throws Exception {
    hold(first, TestTable.FIRST);
    hold(second, TestTable.FIRST);
    table.node = "node-2";
    Files.createDirectories(table.dataRoot.resolve("another-namespace"));
    for (int time = 0; time < 10; time++) {
      assertArrayEquals(content, readAll(TestTable.FIRST));
    }
    assertTrue(first.ranges.isEmpty());
    assertEquals(10, counted().remoteFiles());
  }

  /** A local file of another length is not this snapshot's replica: it is left alone. */
  @Test
  void passesOverATruncatedLocalFile() throws Exception {
    table.putOnLocalDisk(TestTable.FIRST, Arrays.copyOf(content, 10));
    hold(first, TestTable.FIRST);
    assertArrayEquals(content, readAll(TestTable.FIRST));
    assertEquals(0, counted().localBytes());
  }

  /** Folder names with escapes reach the agent encoded once. */
  @Test
  void encodesPathsOnce() throws Exception {
    hold(first, TestTable.SECOND);
    assertArrayEquals(table.contents.get(TestTable.SECOND), readAll(TestTable.SECOND));
  }

  /** Any sequence of seeks and positioned reads gives the file's bytes. */
  @Test
  void seeksAnywhere() throws Exception {
    hold(first, TestTable.FIRST);
    try (FSDataInputStream stream = table.open().open(table.location(TestTable.FIRST))) {
      for (int position : new int[] {content.length - 8, 4, 1 << 20, (1 << 20) - 3, 0, 2_500_000}) {
        byte[] part = new byte[8];
        stream.seek(position);
        stream.readFully(part);
        assertArrayEquals(Arrays.copyOfRange(content, position, position + 8), part);
        byte[] large = new byte[Math.min(1_500_000, content.length - position)];
        stream.readFully(position, large);
        assertArrayEquals(Arrays.copyOfRange(content, position, position + large.length), large);
        assertEquals(position + 8, stream.getPos());
      }
      stream.seek(content.length);
      assertEquals(-1, stream.read());
      assertThrows(EOFException.class, () -> stream.seek(content.length + 1));
      assertThrows(EOFException.class, () -> stream.readFully(content.length - 4, new byte[8]));
    }
  }

  /** An answer that is cut off is continued where it ended. */
  @Test
  void continuesAfterACut() throws Exception {
    hold(first, TestTable.FIRST);
    first.cutAfterBytes = 700_000;
    assertArrayEquals(content, readAll(TestTable.FIRST));
  }

  /** A replica that ends too early is no end of the file: the next one gives the rest. */
  @Test
  void changesReplicaWhereAFileWasShortened() {
    first.files.put(TestTable.target(TestTable.FIRST), Arrays.copyOf(content, 700_000));
    hold(second, TestTable.FIRST);
    for (int time = 0; time < 10; time++) {
      assertArrayEquals(content, assertTimeoutPreemptively(Duration.ofSeconds(120), () -> readAll(TestTable.FIRST)));
    }
  }

  /** When the replica being read is lost in the middle, the next one gives the rest. */
  @Test
  void changesReplicaInTheMiddle() throws Exception {
    hold(first, TestTable.FIRST);
    hold(second, TestTable.FIRST);
    try (FSDataInputStream stream = table.open().open(table.location(TestTable.FIRST))) {
      byte[] head = stream.readNBytes(1_000_000);
      assertArrayEquals(Arrays.copyOf(content, 1_000_000), head);
      (first.ranges.isEmpty() ? second : first).close();
      assertArrayEquals(Arrays.copyOfRange(content, 1_000_000, content.length), stream.readAllBytes());
    }
    assertTrue(!first.ranges.isEmpty() && !second.ranges.isEmpty());
  }

  /** A local file that vanishes while it is read is replaced by a remote replica. */
  @Test
  void changesFromLocalToRemote() throws Exception {
    table.putOnLocalDisk(TestTable.FIRST, content);
    hold(first, TestTable.FIRST);
    try (FSDataInputStream stream = table.open().open(table.location(TestTable.FIRST))) {
      Path local = table.dataRoot.resolve("shop/orders-12345678").resolve(TestTable.FIRST);
      stream.readNBytes(100);
      Files.write(local, new byte[0]);
      assertArrayEquals(Arrays.copyOfRange(content, 100, content.length), stream.readAllBytes());
    }
  }

  /** A bucket that moved after the query was planned is found on a node that the plan does not name. */
  @Test
  void findsAMovedBucket() throws Exception {
    try (FakeAgent third = new FakeAgent(tls)) {
      table.agents.put("node-3", third.url());
      hold(third, TestTable.FIRST);
      assertArrayEquals(content, readAll(TestTable.FIRST));
    }
  }

  /** An agent that is only starting is asked again. */
  @Test
  void waitsForAnAgentThatStarts() throws Exception {
    hold(first, TestTable.SECOND);
    first.unavailableTimes = 2;
    assertArrayEquals(table.contents.get(TestTable.SECOND), readAll(TestTable.SECOND));
  }

  /** An agent that was replaced is found at its address in the group's ConfigMap, also in the middle of a file. */
  @Test
  void followsAnAgentToItsNextAddress() throws Exception {
    hold(first, TestTable.FIRST);
    table.agents.remove("node-2");
    Path addresses = tls.authority().resolveSibling(AgentAddresses.FILE_NAME);
    try (FakeAgent successor = new FakeAgent(tls);
        FSDataInputStream stream = table.open().open(table.location(TestTable.FIRST))) {
      hold(successor, TestTable.FIRST);
      byte[] head = stream.readNBytes(1_000_000);
      first.close();
      Files.writeString(addresses, "{\"node-1\": \"" + successor.url() + "\"}");
      assertArrayEquals(Arrays.copyOfRange(content, head.length, content.length), stream.readAllBytes());
      assertTrue(!successor.ranges.isEmpty());
    } finally {
      Files.deleteIfExists(addresses);
    }
  }

  /** Without an operator no agent is reported ready again: it is asked when no other agent has the file. */
  @Test
  void asksAgentsThatWereNotReadyLast() throws Exception {
    hold(first, TestTable.FIRST);
    hold(second, TestTable.FIRST);
    table.others.put("node-1", table.agents.remove("node-1"));
    for (int time = 0; time < 10; time++) {
      assertArrayEquals(content, readAll(TestTable.FIRST));
    }
    assertTrue(first.ranges.isEmpty());
    second.close();
    assertArrayEquals(content, readAll(TestTable.FIRST));
    assertTrue(!first.ranges.isEmpty());
  }

  /** Addresses that are no JSON are as good as none. */
  @Test
  void ignoresUnreadableAddresses() throws Exception {
    hold(first, TestTable.FIRST);
    Path addresses = Files.writeString(tls.authority().resolveSibling(AgentAddresses.FILE_NAME), "{");
    try {
      assertArrayEquals(content, readAll(TestTable.FIRST));
    } finally {
      Files.delete(addresses);
    }
  }

  /** Another node's agent at the old address is not asked for this node's files. */
  @Test
  void passesOverAnAddressThatIsAnotherNodesNow() throws Exception {
    first.node = "node-7";
    hold(first, TestTable.FIRST);
    hold(second, TestTable.FIRST);
    assertArrayEquals(content, readAll(TestTable.FIRST));
    assertTrue(first.ranges.isEmpty());
  }

  /** A manifest that no disk has is asked for again while agents restart. */
  @Test
  void waitsForAManifest() throws Exception {
    Path kept = folder.resolve("manifests").resolve(table.manifest + ".json.zst");
    first.files.put(
        TestTable.NAMESPACE + "/" + TestTable.DIRECTORY + "/manifests/" + table.manifest + ".json.zst",
        Files.readAllBytes(kept));
    Files.delete(kept);
    hold(first, TestTable.FIRST);
    first.unavailableTimes = 2;
    second.unavailableTimes = 2;
    assertArrayEquals(content, readAll(TestTable.FIRST));
  }

  /** An agent that fails is asked last for the next files, so that it costs its time limit once. */
  @Test
  void asksAFailingAgentLast() throws Exception {
    hold(first, TestTable.FIRST);
    hold(second, TestTable.FIRST);
    first.unavailableTimes = Integer.MAX_VALUE;
    long began = System.nanoTime();
    for (int file = 0; file < 20; file++) {
      assertArrayEquals(content, readAll(TestTable.FIRST));
    }
    long remembered = (System.nanoTime() - began) / RecentFailures.MEMORY.toNanos(); // on a busy machine
    assertTrue(first.requests <= 1 + remembered, first.requests + " requests");
  }

  /** So with manifests: a node that is cut off costs its time limit once, not once per query; the others share the requests. */
  @Test
  void asksAFailingAgentLastForManifests() throws Exception {
    first.unavailableTimes = Integer.MAX_VALUE;
    try (FakeAgent third = new FakeAgent(tls)) {
      table.agents.put("node-3", third.url());
      long began = System.nanoTime();
      for (int query = 0; query < 20; query++) {
        table.manifest = table.writeManifest(Map.of("formatVersion", 1, "buckets", 2, "files", List.of(), "query", query));
        Path kept = folder.resolve("manifests").resolve(table.manifest + ".json.zst");
        String target = TestTable.NAMESPACE + "/" + TestTable.DIRECTORY + "/manifests/" + kept.getFileName();
        second.files.put(target, Files.readAllBytes(kept));
        third.files.put(target, Files.readAllBytes(kept));
        Files.delete(kept);
        assertTrue(table.open().getFileStatus(table.location("data")).isDirectory());
      }
      long remembered = (System.nanoTime() - began) / RecentFailures.MEMORY.toNanos(); // on a busy machine
      assertTrue(first.requests <= 1 + remembered, first.requests + " requests");
      assertTrue(second.requests > 0 && third.requests > 0, second.requests + " and " + third.requests + " requests");
    }
  }

  /** Requests of one file and of many go over connections that are kept. */
  @Test
  void reusesConnections() throws Exception {
    hold(first, TestTable.FIRST);
    table.agents.remove("node-2");
    for (int file = 0; file < 5; file++) {
      assertArrayEquals(content, readAll(TestTable.FIRST));
    }
    assertTrue(first.requests >= 10, first.requests + " requests");
    assertEquals(1, first.clientPorts.size());
  }

  /** An agent that is never reached is given up at the deadline of 3 s, not before and not long after. */
  @Test
  void givesUpAtTheDeadline() {
    first.unavailableTimes = Integer.MAX_VALUE;
    second.unavailableTimes = Integer.MAX_VALUE;
    long started = System.nanoTime();
    IOException error = assertThrows(
        IOException.class, () -> table.openInVain().open(table.location(TestTable.FIRST)).read());
    long millis = (System.nanoTime() - started) / 1_000_000;
    assertTrue(error.getMessage().contains("503 starting"), error.getMessage());
    assertTrue(error.getMessage().matches("(?s).*Tried for \\d+ s \\(spark.colocation.retrySeconds=\\d+\\).*"));
    assertTrue(first.requests > 1 && second.requests > 1);
    assertTrue(millis >= 3_000, "the whole time is used: " + millis + " ms");
    assertTrue(millis < 20_000, millis + " ms");
  }

  /** A renewed CA is trusted without a new session: the agents' certificate is renewed while executors run. */
  @Test
  void trustsTheRenewedAuthority() throws Exception {
    hold(second, TestTable.SECOND);
    Path elsewhere = Files.createDirectories(certificates.resolve("renewed"));
    TestTls renewed = TestTls.forNodes(elsewhere, "node-2");
    Path authority = Files.copy(tls.authority(), folder.resolve("ca.crt"));
    TestTable moved = new TestTable(Files.createDirectories(folder.resolve("moved")), authority);
    try (FakeAgent agent = new FakeAgent(renewed)) {
      agent.files.put(TestTable.target(TestTable.SECOND), moved.contents.get(TestTable.SECOND));
      moved.agents.put("node-2", agent.url());
      assertThrows(IOException.class, () -> moved.openInVain().open(moved.location(TestTable.SECOND)).read());
      Files.copy(renewed.authority(), authority, java.nio.file.StandardCopyOption.REPLACE_EXISTING);
      assertEquals(
          moved.contents.get(TestTable.SECOND)[0] & 0xff, moved.open().open(moved.location(TestTable.SECOND)).read());
    }
  }

  /** A renewed token is used without a new session. */
  @Test
  void readsTheRenewedToken() throws Exception {
    hold(first, TestTable.SECOND);
    assertArrayEquals(table.contents.get(TestTable.SECOND), readAll(TestTable.SECOND));
    first.token = "renewed";
    Files.writeString(table.tokenFile, "renewed");
    assertArrayEquals(table.contents.get(TestTable.SECOND), readAll(TestTable.SECOND));
  }

  /** When no replica can be read, the error names table, bucket, file, and what each node said. */
  @Test
  void namesWhatItTried() {
    first.token = "other";
    IOException error = assertThrows(IOException.class, () -> readAll(TestTable.FIRST));
    for (String part : new String[] {"shop.orders-12345678", "bucket 0", TestTable.FIRST, "node-1", "401", "node-2", "404"}) {
      assertTrue(error.getMessage().contains(part), error.getMessage());
    }
  }

  /** A certificate of the right CA but for another name is refused. */
  @Test
  void refusesAnotherServersCertificate() throws Exception {
    TestTls impostor = TestTls.forNames(certificates, "127.0.0.1.example", "colocation-agent");
    TestTable other = new TestTable(Files.createDirectories(folder.resolve("other")), impostor.authority());
    try (FakeAgent agent = new FakeAgent(impostor)) {
      agent.files.put(TestTable.target(TestTable.SECOND), content);
      other.agents.put("node-2", agent.url());
      IOException error = other.refusalOf(TestTable.SECOND);
      assertTrue(error.getMessage().contains("node-2.colocation-agent"), error.getMessage());
    }
  }

  /** The agent of another node, at the address of this one, is refused before it is sent a token. */
  @Test
  void refusesAnotherNodesCertificate() throws Exception {
    TestTls ofAnother = TestTls.forNodes(Files.createDirectories(certificates.resolve("another")), "node-1");
    TestTable other = new TestTable(Files.createDirectories(folder.resolve("another")), ofAnother.authority());
    try (FakeAgent agent = new FakeAgent(ofAnother)) {
      agent.files.put(TestTable.target(TestTable.SECOND), other.contents.get(TestTable.SECOND));
      other.agents.put("node-2", agent.url());
      IOException error = other.refusalOf(TestTable.SECOND);
      assertTrue(error.getMessage().contains("node-2.colocation-agent"), error.getMessage());
      assertEquals(0, agent.requests);
      other.agents.clear();
      other.agents.put("node-1", agent.url());
      other.buckets.set(1, List.of("node-1"));
      assertEquals(
          other.contents.get(TestTable.SECOND)[0] & 0xff, other.open().open(other.location(TestTable.SECOND)).read());
    }
  }

  /** Each agent is asked by its node's name, as it may have a certificate for clients of the release before, too. */
  @Test
  void asksForTheNodesCertificate() throws Exception {
    hold(first, TestTable.FIRST);
    hold(second, TestTable.SECOND);
    table.agents.remove("node-2");
    readAll(TestTable.FIRST);
    table.agents.put("node-2", second.url());
    readAll(TestTable.SECOND);
    assertEquals(Set.of("node-1.colocation-agent"), first.askedNames);
    assertEquals(Set.of("node-2.colocation-agent"), second.askedNames);
  }

  /** A certificate that the agents' CA did not sign is refused, whatever its name. */
  @Test
  void refusesAnotherAuthority() throws Exception {
    Path elsewhere = Files.createDirectories(certificates.resolve("elsewhere"));
    try (FakeAgent agent = new FakeAgent(TestTls.forNodes(elsewhere, "node-2"))) {
      agent.files.put(TestTable.target(TestTable.SECOND), content);
      table.agents.clear();
      table.agents.put("node-2", agent.url());
      IOException error = assertThrows(
          IOException.class, () -> table.openInVain().open(table.location(TestTable.SECOND)).read());
      assertTrue(error.getMessage().contains("node-2"), error.getMessage());
      assertTrue(agent.ranges.isEmpty());
    }
  }
}
