package dev.colocation.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;

/**
 * Finds manifests by their digest: in the driver's folder, on this node's disk, or at an agent. What was read once stays in
 * memory, since a manifest never changes.
 */
public final class ManifestStore {
  private static final int MAX_CACHED = 64;

  private static final Map<String, Object> LOCKS = new ConcurrentHashMap<>();
  private static final Map<String, Manifest> CACHE =
      Collections.synchronizedMap(new LinkedHashMap<>(MAX_CACHED, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Manifest> eldest) {
          return size() > MAX_CACHED;
        }
      });

  private ManifestStore() {}

  /**
   * The manifest that a location names.
   *
   * @throws IOException when no place has it, naming the places that were tried
   */
  static Manifest get(ColocPath path, Settings settings) throws IOException {
    if (path.manifest().equals(Manifest.NOTHING)) {
      return Manifest.EMPTY;
    }
    // One lock per manifest: the tasks of an executor start together and want the same one.
    synchronized (LOCKS.computeIfAbsent(path.manifest(), name -> new Object())) {
      Manifest cached = CACHE.get(path.manifest());
      if (cached == null) {
        cached = Manifest.decode(read(path, settings), path.manifest());
        CACHE.put(path.manifest(), cached);
        LOCKS.remove(path.manifest());
      }
      return cached;
    }
  }

  /**
   * The manifest of a {@code coloc://} location.
   *
   * @throws IOException when no place has it
   */
  public static Manifest get(org.apache.hadoop.fs.Path location, Configuration configuration) throws IOException {
    return get(ColocPath.parse(location), new Settings(configuration));
  }

  /** The same as JSON, with what only people want to know of each file; never kept in memory. */
  public static JsonNode text(org.apache.hadoop.fs.Path location, Configuration configuration) throws IOException {
    ColocPath path = ColocPath.parse(location);
    Settings settings = new Settings(configuration);
    if (get(path, settings) == Manifest.EMPTY) {
      return MissingNode.getInstance();
    }
    byte[] stored = read(path, settings);
    Manifest.decode(stored, path.manifest());
    return Manifest.text(stored);
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
    List<AgentAddress> agents = ColocFileSystem.agentsOf(group, settings);
    Map<String, String> failures = new LinkedHashMap<>();
    Rounds rounds = new Rounds(settings.readDeadline());
    boolean worthRetrying;
    do {
      worthRetrying = false;
      for (AgentAddress agent : agents) {
        try {
          return agent.call(
              url -> AgentHttp.shared(settings).readWhole(agent.node(), url, target, settings.requestTimeout()));
        } catch (InterruptedIOException error) {
          throw error;
        } catch (IOException error) {
          failures.put(agent.node(), String.valueOf(error.getMessage()));
          worthRetrying |= AgentAddress.mayPass(error);
        }
      }
    } while (worthRetrying && rounds.waitForAnother());
    throw new IOException("manifest " + path.manifest() + " of table " + path.table() + " is neither in " + local
        + " nor at an agent. " + rounds.tried() + ": " + failures
        + "; register the table again: colocation.spark.register(spark)");
  }
}
