package dev.colocation.spark.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.RemoteIterator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Manifests of format 2, of which executors read the header and the buckets that they need. */
class ManifestFramesTest {
  private static final int BUCKETS = 4;
  /** Manifests stay in memory, so each test has others. */
  private static int snapshots;

  @TempDir static Path certificates;
  private static TestTls tls;

  @TempDir Path folder;
  private TestTable table;
  private FakeAgent agent;
  private byte[] stored;
  private JsonNode header;

  @BeforeAll
  static void makeCertificate() throws Exception {
    tls = TestTls.forNodes(certificates, "node-1");
  }

  @BeforeEach
  void storeManifest() throws Exception {
    table = new TestTable(folder, tls.authority());
    agent = new FakeAgent(tls);
    table.agents.put("node-1", agent.url());
    table.buckets.clear();
    table.buckets.addAll(Collections.nCopies(BUCKETS, List.of("node-1")));
    stored = ManifestEncoder.framed(manifest(BUCKETS, ++snapshots));
    name();
  }

  @AfterEach
  void stop() {
    agent.close();
  }

  private static String file(int day, int bucket) {
    return String.format(Locale.ROOT, "data/day=%d/part-1_%05d.c000.zstd.parquet", day, bucket);
  }

  /** Two files of each bucket but the last one, which has none. */
  private static ObjectNode manifest(int buckets, int snapshot) {
    ObjectNode manifest = Manifest.JSON.createObjectNode();
    manifest.put("formatVersion", 1).put("snapshotId", snapshot).put("buckets", buckets);
    manifest.putArray("bucketedBy").add("k");
    manifest.putArray("columns").addObject().put("name", "k").put("type", "bigint");
    ArrayNode files = manifest.putArray("files");
    for (int day = 2; day > 0; day--) {
      for (int bucket = 0; bucket < buckets - 1; bucket++) {
        files.addObject().put("path", file(day, bucket)).put("bucket", bucket).put("bytes", 10 * day + bucket)
            .put("rows", 1).put("sha256", "00").putObject("partition").put("day", String.valueOf(day));
      }
    }
    return manifest;
  }

  private void name() throws Exception {
    table.manifest = HexFormat.of().formatHex(ManifestFrames.digest(stored));
    header = ManifestFrames.Prefix.of(stored, "").header(stored, "");
  }

  /** The copy on this node's disk; changed bytes are wrong ones. */
  private void putOnDisk(int... changed) throws IOException {
    byte[] copy = stored.clone();
    Arrays.stream(changed).forEach(position -> copy[position] ^= 1);
    table.putOnLocalDisk("manifests/" + table.manifest + ".json.zst", copy);
  }

  private void giveToAgent() {
    agent.files.put(TestTable.target("manifests/" + table.manifest + ".json.zst"), stored);
  }

  private int positionOf(int bucket) throws IOException {
    int position = ManifestFrames.Prefix.of(stored, "").headerEnd();
    for (JsonNode frame : header.path("frames")) {
      if (frame.path("bucket").asInt() == bucket) {
        return position;
      }
      position += frame.path("bytes").asInt();
    }
    return position;
  }

  private FileStatus status(int day, int bucket) throws IOException {
    return table.open().getFileStatus(table.location(file(day, bucket)));
  }

  private List<String> listed(String below) throws IOException {
    List<String> found = new ArrayList<>();
    RemoteIterator<LocatedFileStatus> files = table.open().listFiles(table.location(below), true);
    while (files.hasNext()) {
      String path = files.next().getPath().toString();
      found.add(path.substring(path.indexOf("data/")));
    }
    return found;
  }

  /** A file is found, one that is not named is not, and a bucket may be empty. */
  @Test
  void findsFiles() throws Exception {
    putOnDisk();
    assertEquals(21, status(2, 1).getLen());
    assertThrows(FileNotFoundException.class, () -> status(3, 1));
    assertThrows(FileNotFoundException.class, () -> status(1, 3));
    assertThrows(FileNotFoundException.class, () -> status(1, 4));
  }

  /** All files, those of a folder, and the folders. */
  @Test
  void lists() throws Exception {
    putOnDisk();
    assertEquals(
        List.of(file(1, 0), file(2, 0), file(1, 1), file(2, 1), file(1, 2), file(2, 2)), listed("data"));
    assertEquals(List.of(file(2, 0), file(2, 1), file(2, 2)), listed("data/day=2"));
    assertEquals(2, table.open().listStatus(table.location("data")).length);
  }

  /** Without a copy of its own an executor asks for the header, once, and for the bucket that it reads. */
  @Test
  void readsOneBucketFromAnAgent() throws Exception {
    giveToAgent();
    assertEquals(11, status(1, 1).getLen());
    assertEquals(21, status(2, 1).getLen());
    int position = positionOf(1);
    int length = positionOf(2) - position;
    int headerEnd = ManifestFrames.Prefix.of(stored, "").headerEnd();
    assertEquals(
        List.of("bytes=0-43", "bytes=0-" + (headerEnd - 1), "bytes=" + position + "-" + (position + length - 1)),
        agent.ranges);
  }

  /** Damage in a bucket that is not read does no harm; a damaged frame that is read comes from an agent. */
  @Test
  void readsDamagedLocalFramesFromAgents() throws Exception {
    giveToAgent();
    putOnDisk(positionOf(2) + 5);
    assertEquals(10, status(1, 0).getLen());
    assertEquals(0, agent.requests);
    assertEquals(12, status(1, 2).getLen());
    assertEquals(1, agent.requests);
  }

  /** A wrong byte before the buckets is noticed too, wherever it is. */
  @Test
  void readsADamagedLocalHeaderFromAgents() throws Exception {
    for (int position : new int[] {0, 5, 9, 20, 60}) {
      stored = ManifestEncoder.framed(manifest(BUCKETS, ++snapshots));
      name();
      giveToAgent();
      putOnDisk(position);
      assertEquals(11, status(1, 1).getLen(), "byte " + position);
    }
  }

  /** Drivers read all of it, and take nothing that has another digest than the manifest's name. */
  @Test
  void refusesAnotherManifestsContent() throws Exception {
    String name = table.manifest;
    stored = ManifestEncoder.framed(manifest(BUCKETS, ++snapshots));
    table.manifest = name;
    putOnDisk();
    IOException error = assertThrows(IOException.class, () -> listed("data"));
    assertTrue(error.getMessage().contains("has the content of "), error.getMessage());
  }

  /** People are shown it as format 1 has it, with all that is known of each file. */
  @Test
  void isShownAsFormat1() throws Exception {
    putOnDisk();
    Configuration configuration = table.open().getConf();
    JsonNode shown = ManifestStore.text(table.location("data"), configuration);
    assertEquals(6, shown.path("files").size());
    assertEquals("1", shown.path("files").get(0).path("partition").path("day").asText());
    assertEquals(List.of("k"), ManifestStore.get(table.location("data"), configuration).bucketedBy());
  }

  /** Files in the frame of another bucket, or more of them than in the header, are refused. */
  @Test
  void refusesOtherFilesThanAnnounced() throws Exception {
    ObjectNode other = manifest(BUCKETS, ++snapshots);
    ((ObjectNode) other.path("files").get(0)).put("bucket", 1);
    stored = ManifestEncoder.framed(other);
    name();
    putOnDisk();
    IOException error = assertThrows(IOException.class, () -> status(1, 1));
    assertTrue(error.getMessage().contains("its name has another one"), error.getMessage());
    assertEquals(12, status(1, 2).getLen());
  }

  /** Few files are stored as all releases know it, many as format 2, unless somebody knows format 1 only. */
  @Test
  void choosesTheSmallerFormat() throws Exception {
    ObjectNode few = manifest(BUCKETS, 9);
    ObjectNode many = manifest(ManifestEncoder.FRAMED_FROM_FILES / 2 + 1, 9);
    assertTrue(!ManifestFrames.begins(ManifestEncoder.encode(few, 2).content()));
    assertTrue(ManifestFrames.begins(ManifestEncoder.encode(many, 2).content()));
    ManifestEncoder.Stored plain = ManifestEncoder.encode(many, 1);
    assertTrue(!ManifestFrames.begins(plain.content()));
    assertEquals(1, Manifest.JSON.readTree(ManifestFrames.text(plain.content())).path("formatVersion").asInt());
    assertEquals(HexFormat.of().formatHex(ManifestFrames.digest(plain.content())), plain.sha256());
  }
}
