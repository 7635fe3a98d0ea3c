package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.cluster.WriteException.NoAgentAnswers;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Manifests by digest, as the agents keep them. */
final class ManifestMemory implements Commit.Storage {
  final Map<String, byte[]> stored = new HashMap<>();
  WriteException failure;

  @Override
  public StoredManifest read(String sha256) throws IOException {
    if (!stored.containsKey(sha256)) {
      throw new NoAgentAnswers("manifest " + sha256 + ": no agent gave it");
    }
    return StoredManifest.decode(stored.get(sha256), sha256);
  }

  @Override
  public Publication.Published publish(NextManifest manifest) throws IOException {
    if (failure != null) {
      throw failure;
    }
    stored.put(manifest.sha256(), manifest.stored());
    return new Publication.Published(manifest, 0, List.of());
  }

  /** Paths of a table's files, in their order. */
  List<String> paths(FakeCluster cluster) throws IOException {
    return cluster.state().snapshot().isEmpty() ? List.of()
        : read(cluster.state().snapshot().get().manifestSha256()).files().stream().map(DataFile::path).toList();
  }
}
