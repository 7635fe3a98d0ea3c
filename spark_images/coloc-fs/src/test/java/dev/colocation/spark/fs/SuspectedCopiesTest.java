package dev.colocation.spark.fs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.colocation.spark.fs.AgentAddresses.AgentAddress;
import dev.colocation.spark.fs.ReadMetrics.ReadCounters;
import dev.colocation.spark.fs.Replica.LocalReplica;
import dev.colocation.spark.fs.Replica.RemoteReplica;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Which copy a repeated task reads: the one on this node's disk, or another node's. */
class SuspectedCopiesTest {
  private static final String THIS_NODE = "node-1";

  @TempDir static Path certificates;
  private static TestTls tls;

  @TempDir Path folder;
  private final List<Replica> copies = new ArrayList<>();
  private TestTable table;
  private FakeAgent own;
  private FakeAgent other;
  private byte[] content;

  @BeforeAll
  static void makeCertificate() throws Exception {
    tls = TestTls.forNodes(certificates, THIS_NODE, "node-2");
  }

  @BeforeEach
  void holdTheFileOnBothNodes() throws Exception {
    table = new TestTable(folder, tls.authority());
    content = table.contents.get(TestTable.SECOND);
    own = new FakeAgent(tls);
    other = new FakeAgent(tls);
    Configuration configuration = new Configuration(false);
    configuration.set(Settings.TOKEN_FILE, table.tokenFile.toString());
    configuration.set(Settings.AUTHORITY_FILE, tls.authority().toString());
    Settings settings = new Settings(configuration);
    ColocPath file = ColocPath.parse(table.location(TestTable.SECOND));
    table.putOnLocalDisk(TestTable.SECOND, content);
    copies.add(new LocalReplica(
        table.dataRoot.resolve(TestTable.NAMESPACE).resolve(TestTable.DIRECTORY).resolve(TestTable.SECOND)));
    AgentAddresses known = AgentAddresses.shared(settings);
    for (String node : List.of(THIS_NODE, "node-2")) {
      FakeAgent agent = node.equals(THIS_NODE) ? own : other;
      agent.files.put(TestTable.target(TestTable.SECOND), content);
      copies.add(new RemoteReplica(
          AgentHttp.shared(settings), new AgentAddress(known, node, agent.url(), true), file, Duration.ofSeconds(30)));
    }
  }

  @AfterEach
  void stopAgents() {
    own.close();
    other.close();
  }

  /** Reads the whole file; whether the bytes came from this node's disk, its agent or the other one. */
  private String readFrom(String thisNode) throws Exception {
    ReadCounters.Totals before = ReadCounters.OF_THIS_JVM.totals();
    byte[] read = new byte[content.length];
    try (ReplicaReader reader = new ReplicaReader(
        "a file", SuspectedCopies.ordered(copies, thisNode), Duration.ofSeconds(30), ReadCounters.OF_THIS_JVM)) {
      reader.readFully(0, read, 0, read.length);
    }
    assertArrayEquals(content, read);
    boolean isLocal = ReadCounters.OF_THIS_JVM.totals().minus(before).localBytes() > 0;
    return isLocal ? "disk" : own.ranges.isEmpty() ? "other" : "own";
  }

  /** A task may be repeated for other reasons: the local copy that its agent finds whole is read, after one look. */
  @Test
  void readsALocalCopyThatIsWhole() throws Exception {
    assertEquals("disk", readFrom(THIS_NODE));
    String path = "/v1/tables/" + TestTable.NAMESPACE + "/" + TestTable.DIRECTORY + "/damage";
    assertEquals(List.of(path + " {\"path\":\"" + TestTable.SECOND + "\"}"), own.checks);
    assertTrue(other.checks.isEmpty());
  }

  /** A local copy that its agent finds damaged is replaced by another node's, which is looked at too. */
  @Test
  void passesOverADamagedLocalCopy() throws Exception {
    own.isDamaged = true;
    assertEquals("other", readFrom(THIS_NODE));
    assertEquals(1, other.checks.size());
  }

  /** An agent that is too busy to look leaves the copy suspected: its own file is read last. */
  @Test
  void readsUncheckedCopiesLast() throws Exception {
    own.answerToChecks = 429;
    own.files.clear();
    assertEquals("other", readFrom(THIS_NODE));
    other.files.clear();
    assertEquals("disk", readFrom(THIS_NODE));
  }

  /** Without a node's name no agent can check the local copy. */
  @Test
  void doesNotTrustTheDiskOfAnUnknownNode() throws Exception {
    own.isDamaged = true;
    assertEquals("other", readFrom(null));
  }

  /** Damage of a copy on another node is found before its bytes are read. */
  @Test
  void passesOverADamagedRemoteCopy() throws Exception {
    Files.delete(table.dataRoot.resolve(TestTable.NAMESPACE).resolve(TestTable.DIRECTORY).resolve(TestTable.SECOND));
    copies.remove(0);
    own.isDamaged = true;
    assertEquals("other", readFrom("node-3"));
    assertTrue(own.ranges.isEmpty());
  }
}
