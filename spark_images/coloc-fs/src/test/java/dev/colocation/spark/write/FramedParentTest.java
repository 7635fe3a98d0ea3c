package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.fs.ManifestEncoder;
import dev.colocation.spark.fs.ManifestStore;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class FramedParentTest {
  /** A commit goes on top of a manifest of format 2 as of any other. */
  @Test
  void readsFormat2() throws Exception {
    ObjectNode manifest = new ObjectMapper().createObjectNode().put("formatVersion", 1).put("snapshotId", 7).put("buckets", 8);
    manifest.putArray("bucketedBy").add("k");
    manifest.putArray("columns").addObject().put("name", "k").put("type", "bigint");
    ArrayNode files = manifest.putArray("files");
    for (int number = 0; number < ManifestEncoder.FRAMED_FROM_FILES; number++) {
      files.addObject().put("path", String.format(Locale.ROOT, "data/part-%d_%05d.parquet", number, number % 8)).put("bucket", number % 8)
          .put("rows", 1).put("bytes", number).put("sha256", "00").putObject("partition");
    }
    ManifestEncoder.Stored stored = ManifestEncoder.encode(manifest, 2);
    assertTrue(ManifestStore.isFramed(stored.content()));
    StoredManifest parent = StoredManifest.decode(stored.content(), stored.sha256());
    assertEquals(7, parent.snapshotId());
    assertEquals(files.size(), parent.files().size());
  }

  /** Agents would not read the manifest, so the table would be lost with it. */
  @Test
  void refusesMoreFilesThanAgentsRead() {
    List<DataFile> files = new ArrayList<>();
    for (int number = 0; number <= StoredManifest.MAX_FILES; number++) {
      DataFile one = Files.file(String.format(Locale.ROOT, "%08x", number), "a");
      files.add(new DataFile(one.path(), 0, one.partition(), 1, 1, one.sha256(), KeyRange.of(List.of(1L), List.of(2L))));
    }
    WriteException refused = assertThrows(WriteException.class,
        () -> NextManifest.of(new FakeCluster().state(), Optional.empty(), new NewFiles(Mode.APPEND, files, Buckets.asGroup(2))));
    assertTrue(refused.getMessage().contains("would have 262145 files; allowed: 262144. Nothing was changed"));
    files.remove(files.size() - 1);
    NextManifest most = NextManifest.of(
        new FakeCluster().state(), Optional.empty(), new NewFiles(Mode.APPEND, files, Buckets.asGroup(2)));
    assertFalse(new String(most.framedText().orElseThrow(), StandardCharsets.UTF_8).contains("keyRange"), "values are counted, too");
  }

  /** A commit of many files is stored by bucket, and in format 1 for agents that do not read that yet; it counts the same. */
  @Test
  void writesFormat2() throws Exception {
    List<DataFile> files = new ArrayList<>();
    for (int number = 0; number < ManifestEncoder.FRAMED_FROM_FILES; number++) {
      files.add(Files.file(String.format(Locale.ROOT, "%08x", number), "a"));
    }
    NextManifest manifest =
        NextManifest.of(new FakeCluster().state(), Optional.empty(), new NewFiles(Mode.APPEND, files, Buckets.asGroup(2)));
    NextManifest older = manifest.inFormat1().orElseThrow();
    assertTrue(ManifestStore.isFramed(manifest.stored()));
    assertFalse(ManifestStore.isFramed(older.stored()));
    for (NextManifest stored : List.of(manifest, older)) {
      assertEquals(files.size(), StoredManifest.decode(stored.stored(), stored.sha256()).files().size());
      assertEquals("sha256:" + stored.sha256(), stored.snapshot().path("manifest").asText());
      assertEquals(10L * files.size(), stored.snapshot().path("rows").asLong());
    }
    NextManifest small = NextManifest.of(
        new FakeCluster().state(), Optional.empty(), new NewFiles(Mode.APPEND, List.of(Files.A), Buckets.asGroup(2)));
    assertTrue(small.inFormat1().isEmpty());
  }
}
