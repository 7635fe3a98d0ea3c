package dev.colocation.spark.fs;

import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.github.luben.zstd.Zstd;
import dev.colocation.spark.ColocFileSystem;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;

/** A table of two buckets with files of known content, its manifest, and the configuration that {@code register} writes. */
final class TestTable {
  static final String NAMESPACE = "shop";
  static final String DIRECTORY = "orders-12345678";
  static final String FIRST = "data/day=2024-01-01/part-0000aaaa-1_00000.c000.zstd.parquet";
  static final String SECOND = "data/day=a%3Ab/part-0000aaaa-1_00001.c000.zstd.parquet";

  final Path dataRoot;
  final Map<String, byte[]> contents = new LinkedHashMap<>();
  final Map<String, String> agents = new LinkedHashMap<>();
  final Map<String, String> others = new LinkedHashMap<>();
  final List<List<String>> buckets = new ArrayList<>(List.of(List.of("node-1", "node-2"), List.of("node-2", "node-3")));
  private final Path folder;
  private final Path authority;
  final Path tokenFile;
  String manifest;
  String node = "";

  TestTable(Path folder, Path authority) throws Exception {
    this.folder = folder;
    this.authority = authority;
    dataRoot = Files.createDirectories(folder.resolve("root"));
    tokenFile = Files.writeString(folder.resolve("token"), "reader\n");
    contents.put(FIRST, bytes(3_000_000, 1));
    contents.put(SECOND, bytes(1_000, 2));
    List<Map<String, Object>> files = new ArrayList<>();
    for (String path : contents.keySet()) {
      files.add(Map.of("path", path, "bytes", contents.get(path).length, "bucket", files.size()));
    }
    manifest = writeManifest(Map.of("formatVersion", 1, "buckets", 2, "files", files));
  }

  static byte[] bytes(int length, long seed) {
    byte[] content = new byte[length];
    new Random(seed).nextBytes(content);
    return content;
  }

  /** Puts a manifest of one column where the driver looks for it; returns its digest. */
  String writeManifest(Map<String, ?> content) throws Exception {
    Map<String, Object> manifest = new LinkedHashMap<>(
        Map.of("snapshotId", 1, "columns", List.of(Map.of("name", "k", "type", "bigint")), "bucketedBy", List.of("k")));
    manifest.putAll(content);
    byte[] stored = Zstd.compress(new ObjectMapper().writeValueAsBytes(manifest));
    String digest = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(stored));
    Files.write(Files.createDirectories(folder.resolve("manifests")).resolve(digest + ".json.zst"), stored);
    return digest;
  }

  void putOnLocalDisk(String path, byte[] content) throws IOException {
    Path file = dataRoot.resolve(NAMESPACE).resolve(DIRECTORY).resolve(path);
    Files.createDirectories(file.getParent());
    Files.write(file, content);
  }

  /** What an agent calls a file: percent-encoded once per segment. */
  static String target(String path) {
    return NAMESPACE + "/" + DIRECTORY + "/" + path.replace("%", "%25").replace("=", "%3D");
  }

  org.apache.hadoop.fs.Path location(String path) {
    return new org.apache.hadoop.fs.Path("coloc", NAMESPACE, "/" + DIRECTORY + "/" + manifest + "/" + path);
  }

  /** With long patience: a busy machine's agent is not one that gives no answer. */
  ColocFileSystem open() throws IOException {
    return open(30);
  }

  /** For who will be refused by all agents. */
  ColocFileSystem openInVain() throws IOException {
    return open(3);
  }

  /** The error of a read that all agents refuse; once more where a busy machine took too long even to connect. */
  IOException refusalOf(String path) {
    IOException error = null;
    for (int attempt = 0; attempt < 5 && (error == null || error.getMessage().contains("timed out")); attempt++) {
      error = assertThrows(IOException.class, () -> openInVain().open(location(path)).read());
    }
    return error;
  }

  /** @param patienceSeconds for one request, and for a read of all replicas */
  private ColocFileSystem open(int patienceSeconds) throws IOException {
    Configuration configuration = new Configuration(false);
    configuration.set(Settings.DATA_ROOT, dataRoot.toString());
    configuration.set(Settings.MANIFEST_DIRECTORY, folder.resolve("manifests").toString());
    configuration.set(Settings.TOKEN_FILE, tokenFile.toString());
    configuration.set(Settings.AUTHORITY_FILE, authority.toString());
    configuration.set(Settings.NODE, node);
    configuration.set(Settings.READ_DEADLINE, String.valueOf(patienceSeconds));
    configuration.set(Settings.REQUEST_TIMEOUT, String.valueOf(patienceSeconds));
    configuration.set(Settings.TABLE_PREFIX + NAMESPACE + "." + DIRECTORY, "sales");
    configuration.set(
        Settings.GROUP_PREFIX + NAMESPACE + ".sales",
        new ObjectMapper().writeValueAsString(
            Map.of("name", "sales", "agents", agents, "others", others, "buckets", buckets)));
    ColocFileSystem fileSystem = new ColocFileSystem();
    fileSystem.initialize(location("").toUri(), configuration);
    return fileSystem;
  }
}
