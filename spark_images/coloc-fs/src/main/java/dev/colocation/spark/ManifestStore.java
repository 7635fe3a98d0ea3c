package dev.colocation.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Finds manifests by their digest: in the driver's folder, on this node's disk, or at an agent. What was read once stays in
 * memory, since a manifest never changes.
 */
final class ManifestStore {
  private static final int MAX_CACHED = 64;

  private static final Map<String, Manifest> CACHE =
      new LinkedHashMap<>(MAX_CACHED, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Manifest> eldest) {
          return size() > MAX_CACHED;
        }
      };

  private ManifestStore() {}

  /**
   * The manifest that a location names.
   *
   * @throws IOException when no place has it, naming the places that were tried
   */
  static Manifest get(ColocPath path, Settings settings) throws IOException {
    // One lock for all: the tasks of an executor start together and want the same manifest.
    synchronized (CACHE) {
      Manifest cached = CACHE.get(path.manifest());
      if (cached == null) {
        cached = Manifest.decode(read(path, settings), path.manifest());
        CACHE.put(path.manifest(), cached);
      }
      return cached;
    }
  }

  private static byte[] read(ColocPath path, Settings settings) throws IOException {
    String name = path.manifest() + ".json.zst";
    List<Path> local = new ArrayList<>();
    settings.manifestDirectory().ifPresent(directory -> local.add(directory.resolve(name)));
    local.add(settings.dataRoot().resolve(path.namespace()).resolve(path.directory()).resolve("manifests").resolve(name));
    for (Path file : local) {
      if (Files.isReadable(file)) {
        return Files.readAllBytes(file);
      }
    }
    Settings.Group group = settings.groupOf(path.namespace(), path.directory());
    String target = AgentHttp.fileTarget(path, "manifests/" + name);
    List<String> failures = new ArrayList<>();
    for (Map.Entry<String, String> agent : group.agents().entrySet()) {
      try {
        return AgentHttp.shared(settings).readWhole(agent.getValue(), target, settings.requestTimeout());
      } catch (IOException error) {
        failures.add(agent.getKey() + ": " + error.getMessage());
      }
    }
    throw new IOException("manifest " + path.manifest() + " of table " + path.table() + " is neither in " + local
        + " nor at an agent " + failures + "; register the table again: colocation.spark.register(spark)");
  }
}
