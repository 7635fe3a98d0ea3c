package dev.colocation.spark.fs;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ManifestTest {
  @TempDir Path folder;
  private TestTable table;

  @BeforeEach
  void makeTable() throws Exception {
    table = new TestTable(folder, folder.resolve("unused.crt"));
  }

  private String refusal() {
    IOException error = assertThrows(IOException.class, () -> table.open().listStatus(table.location("data")));
    return error.getMessage();
  }

  /** A bucket that is out of range, or not the one in the file's name, would lose rows in joins: it is refused. */
  @ParameterizedTest
  @CsvSource({
    "1, data/part-0000aaaa-1_00000.c000.zstd.parquet, its name has another one",
    "0, data/part-0000aaaa-1.c000.zstd.parquet, its name has another one",
    "2, data/part-0000aaaa-1_00002.c000.zstd.parquet, allowed: 0 to 1",
  })
  void refusesWrongBuckets(int bucket, String path, String expected) throws Exception {
    List<?> files = List.of(Map.of("path", path, "bytes", 1, "bucket", bucket));
    table.manifest = table.writeManifest(Map.of("formatVersion", 1, "buckets", 2, "files", files));
    assertTrue(refusal().contains(expected), refusal());
  }

  /** A manifest of a later format is refused rather than misread. */
  @Test
  void refusesNewerFormats() throws Exception {
    table.manifest = table.writeManifest(Map.of("formatVersion", 3, "buckets", 2, "files", List.of()));
    assertTrue(refusal().contains("format 3; this release reads up to 2: use the Spark image"), refusal());
  }

  /** Content that does not have the digest in its name is refused. */
  @Test
  void refusesOtherContent() throws Exception {
    String other = table.writeManifest(Map.of("formatVersion", 1, "buckets", 3, "files", List.of()));
    table.manifest = "0".repeat(64);
    Path manifests = folder.resolve("manifests");
    Files.copy(manifests.resolve(other + ".json.zst"), manifests.resolve(table.manifest + ".json.zst"));
    assertTrue(refusal().contains("has the content of " + other), refusal());
  }

  /** The error for a missing manifest lists the places that were searched. */
  @Test
  void errorListsSearchedPlaces() {
    table.manifest = "1".repeat(64);
    assertTrue(refusal().contains(table.dataRoot.toString()), refusal());
    assertTrue(refusal().contains("colocation nodes"), refusal());
  }
}
