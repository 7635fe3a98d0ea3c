package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.github.luben.zstd.Zstd;
import dev.colocation.spark.Contract;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.write.Change.DropPartitions;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Manifests that Python and Java make are the same; {@code tests/unit/spark/test_java_manifests.py} looks at the same two
 * cases of {@code tests/contract/manifests.json} from the other side.
 */
class ManifestExchangeTest {
  private static final DataFile ADDED = new DataFile("data/day=\u00e9\"\u20ac/part-1-1_00001.c000.zstd.parquet", 1,
      Files.day("\u00e9\"\u20ac\t\\"), 7, 70, "3".repeat(64), KeyRange.NONE);

  private final FakeCluster cluster = new FakeCluster();

  private static byte[] byPython() throws IOException {
    return Contract.storedManifest(Contract.named("manifests", "as Python stored it"));
  }

  private static String text(byte[] stored) {
    return new String(Zstd.decompress(stored, (int) Zstd.getFrameContentSize(stored)), StandardCharsets.UTF_8);
  }

  /** The table of the fixtures, which has the manifest as its newest one. */
  private ColocatedTable table(byte[] parent) {
    ObjectNode id = (ObjectNode) cluster.spec().path("columns").path(0);
    id.put("nullable", false);
    cluster.spec().withArray("columns").addObject().put("name", "price").put("type", "decimal(10,2)").put("storedAs", "cost");
    cluster.status().putObject("snapshot").put("id", 1).put("manifest", "sha256:" + StoredManifest.sha256(parent))
        .put("committedAt", "2026-11-21T00:00:00Z");
    return cluster.state();
  }

  @Test
  void javaContinuesPythonsManifestLikePython() throws IOException {
    byte[] stored = byPython();
    StoredManifest parent = StoredManifest.decode(stored, StoredManifest.sha256(stored));
    assertEquals(List.of("a:b", "null"),
        parent.files().stream().map(file -> String.valueOf(file.partition().get("day"))).toList());
    assertEquals(1L << 40, parent.files().get(0).bytes());
    NewFiles change = new NewFiles(
        Mode.OVERWRITE_MATCHING, List.of(ADDED), Buckets.asGroup(2), Optional.of(List.of(Files.day("a:b"), ADDED.partition())));
    NextManifest next = NextManifest.of(table(stored), Optional.of(parent), change);
    assertEquals(text(Contract.storedManifest(Contract.named("manifests", "as Java stored its successor"))),
        text(next.stored()).replaceFirst("\"commitId\":\"[0-9a-f-]{36}\",", ""));
    assertEquals(StoredManifest.sha256(next.stored()), next.sha256());
  }

  @Test
  void laterVersionsFieldsOfFilesStayByteForByte() throws IOException {
    String later = "{\"min\" : [1, {\"a\": 1.50}],\"path\":\"" + Files.C.path() + "\", \"bucket\":0,\"rows\":1,\"bytes\":2,"
        + "\"sha256\":\"x\", \"partition\": {\"day\":\"b\"},\"note\":\"\\u00e9\" }";
    String before = text(byPython());
    byte[] stored = Zstd.compress(
        (before.substring(0, before.length() - 2) + ", " + later + "], \"more\": 1}").getBytes(StandardCharsets.UTF_8));
    StoredManifest parent = StoredManifest.decode(stored, StoredManifest.sha256(stored));
    NextManifest next = NextManifest.of(
        table(stored), Optional.of(parent), new DropPartitions(List.of(Files.day(null))));
    assertTrue(text(next.stored()).endsWith("," + later + "]}"), text(next.stored()));
    JsonNode files = FakeCluster.parsed(text(next.stored())).path("files");
    assertEquals(2, files.size());
  }

  /** Anyone who may load can store such a manifest: only CHAR columns are padded. */
  @Test
  void aLengthOfAColumnThatHasNoneIsDropped() throws IOException {
    byte[] stored = Zstd.compress(
        text(byPython()).replace("\"buckets\":2", "\"padded\":{\"day\":9},\"buckets\":2").getBytes(StandardCharsets.UTF_8));
    StoredManifest parent = StoredManifest.decode(stored, StoredManifest.sha256(stored));
    assertEquals(Map.of("day", 9), parent.padded(Map.of()));
    NextManifest next = NextManifest.of(
        table(stored), Optional.of(parent), new DropPartitions(List.of(Files.day(null))));
    assertEquals(Map.of(), StoredManifest.decode(next.stored(), next.sha256()).padded(Map.of()));
  }

  @Test
  void anEmptiedManifestHasNoFiles() throws IOException {
    byte[] stored = byPython();
    StoredManifest parent = StoredManifest.decode(stored, StoredManifest.sha256(stored));
    NextManifest next = NextManifest.of(table(stored), Optional.of(parent), new DropPartitions(List.of(Map.of())));
    assertTrue(text(next.stored()).endsWith("\"buckets\":2,\"files\":[]}"));
    assertEquals(0, StoredManifest.decode(next.stored(), next.sha256()).files().size());
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', textBlock = """
      "formatVersion":1      | "formatVersion":2    | it has format 2; this release reads up to 1: use
      "bucket":1             | "bucket":0           | is listed in bucket 0 but its name has another one
      "buckets":2            | "buckets":1          | is in bucket 1; allowed: 0 to 0
      "rows":3               | "rows":"x"           | lacks its path, digest, rows or bytes
      "partition":{"day":"   | "partition":{"day":7,"x":" | a value of partition column day is not a text
      "files":[              | "files":[7,          | one of its files is not an object""")
  void invalidManifestsAreRefused(String given, String spoiled, String words) throws IOException {
    byte[] stored = Zstd.compress(
        text(byPython()).replace(given, spoiled).getBytes(StandardCharsets.UTF_8));
    String sha256 = StoredManifest.sha256(stored);
    IOException error = assertThrows(IOException.class, () -> StoredManifest.decode(stored, sha256));
    assertTrue(error.getMessage().contains(words), error.getMessage());
    assertTrue(error.getMessage().startsWith("manifest " + sha256), error.getMessage());
  }

  @Test
  void contentThatDiffersFromTheNameIsRefused() throws IOException {
    byte[] stored = byPython();
    IOException error = assertThrows(IOException.class, () -> StoredManifest.decode(stored, "0".repeat(64)));
    assertTrue(error.getMessage().contains("has the content of"));
    byte[] noZstd = {1, 2, 3};
    assertThrows(IOException.class, () -> StoredManifest.decode(noZstd, StoredManifest.sha256(noZstd)));
    byte[] cut = java.util.Arrays.copyOf(stored, stored.length - 5);
    assertThrows(IOException.class, () -> StoredManifest.decode(cut, StoredManifest.sha256(cut)));
  }
}
