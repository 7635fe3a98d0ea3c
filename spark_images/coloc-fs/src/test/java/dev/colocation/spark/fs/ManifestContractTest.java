package dev.colocation.spark.fs;

import com.fasterxml.jackson.databind.JsonNode;
import dev.colocation.spark.Contract;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** What readers take from manifests, as Python does. */
public final class ManifestContractTest {
  public static final Map<String, Contract.Rule> RULES = Map.of("manifests", ManifestContractTest::manifest);

  @TestFactory
  List<DynamicTest> rules() throws IOException {
    return Contract.tests(RULES);
  }

  private static Map<String, Object> manifest(JsonNode given) throws IOException {
    byte[] stored = Contract.storedManifest(given);
    String sha256 = HexFormat.of().formatHex(ManifestFrames.digest(stored));
    Path folder = Files.createTempDirectory("manifests");
    Path file = Files.write(folder.resolve(sha256 + ".json.zst"), stored);
    try {
      Configuration configuration = new Configuration(false);
      configuration.set(Settings.MANIFEST_DIRECTORY, folder.toString());
      Settings settings = new Settings(configuration);
      ColocPath path = new ColocPath("shop", "orders-12345678", sha256, "");
      Manifest manifest = ManifestStore.get(path, settings);
      Map<String, List<Object>> files = new TreeMap<>();
      ManifestStore.visit(path, settings, "", (name, found) -> files.put(name, List.of(name, found.bucket(), found.bytes())));
      return Map.of(
          "snapshotId", manifest.snapshotId(), "buckets", shown(manifest.buckets()), "columns", manifest.columns(),
          "bucketedBy", manifest.bucketedBy(), "partitionedBy", manifest.partitionedBy(), "sortedBy", manifest.sortedBy(),
          "padded", manifest.padded(), "files", files.values());
    } finally {
      Files.delete(file);
      Files.delete(folder);
    }
  }

  private static Object shown(Buckets buckets) {
    return buckets.areEqual() ? buckets.ofTable() : List.of(buckets.ofGroup(), buckets.ofTable());
  }
}
