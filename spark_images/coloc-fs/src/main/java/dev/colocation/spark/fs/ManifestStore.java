package dev.colocation.spark.fs;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** A cache of manifests by their digest; manifests never change. */
public final class ManifestStore {
  private static final int MAX_CACHED = 64;
  /** In all manifests that are in memory as a whole; some hundred bytes each. */
  private static final int MAX_CACHED_FILES = 400_000;

  /** Each manifest has one of these locks, since the tasks of an executor start together and read the same manifest. */
  private static final Object[] LOCKS = new Object[256];
  private static final Map<String, Manifest> CACHE =
      Collections.synchronizedMap(new LinkedHashMap<>(MAX_CACHED, 0.75f, true));

  static {
    for (int index = 0; index < LOCKS.length; index++) {
      LOCKS[index] = new Object();
    }
  }

  private ManifestStore() {}

  /**
   * The manifest that a location names.
   *
   * @throws IOException when no place has it, naming the places that were tried
   */
  public static Manifest get(ColocPath path, Settings settings) throws IOException {
    String sha256 = path.manifest();
    if (sha256.equals(Manifest.NOTHING)) {
      return Manifest.EMPTY;
    }
    Manifest cached = CACHE.get(sha256);
    if (cached != null) {
      return cached;
    }
    synchronized (LOCKS[Math.floorMod(sha256.hashCode(), LOCKS.length)]) {
      cached = CACHE.get(sha256);
      if (cached == null) {
        cached = read(sha256, new ManifestSource(path, settings));
        keep(sha256, cached);
      }
      return cached;
    }
  }

  /**
   * The manifest of a {@code coloc://} location.
   *
   * @throws IOException when no place has it
   */
  public static Manifest get(Path location, Configuration configuration) throws IOException {
    return get(ColocPath.parse(location), new Settings(configuration));
  }

  /** The file of a location; null when the manifest names none. Reads no other bucket than the file's. */
  public static Manifest.File file(ColocPath path, Settings settings) throws IOException {
    return get(path, settings).find(path.relative(), new ManifestSource(path, settings));
  }

  /** All files of the location's manifest whose paths begin with a prefix, bucket by bucket. */
  public static void visit(ColocPath path, Settings settings, String prefix, BucketFiles.Visitor visitor) throws IOException {
    get(path, settings).visit(prefix, new ManifestSource(path, settings), visitor);
  }

  /** A manifest as JSON of format 1, with the fields of files that only people need; never cached. */
  public static JsonNode text(Path location, Configuration configuration) throws IOException {
    ColocPath path = ColocPath.parse(location);
    Settings settings = new Settings(configuration);
    if (get(path, settings) == Manifest.EMPTY) {
      return MissingNode.getInstance();
    }
    return new ManifestSource(path, settings).whole(stored -> text(stored, path.manifest()));
  }

  /** Whether a stored manifest is one of format 2. */
  public static boolean isFramed(byte[] stored) {
    return ManifestFrames.begins(stored);
  }

  /** A stored manifest of format 2 as the JSON of format 1; its digest was checked. */
  public static byte[] asPlainText(byte[] stored, String sha256) throws IOException {
    ObjectNode manifest = (ObjectNode) text(stored, sha256);
    return Manifest.JSON.writeValueAsBytes(manifest.put("formatVersion", Manifest.PLAIN_FORMAT));
  }

  private static JsonNode text(byte[] stored, String sha256) throws IOException {
    if (!ManifestFrames.begins(stored)) {
      return Manifest.JSON.readTree(ManifestFrames.text(stored));
    }
    ManifestFrames.Prefix prefix = ManifestFrames.Prefix.of(stored, sha256);
    ObjectNode header = prefix.header(stored, sha256);
    return ManifestFrames.of(header, sha256, prefix.headerEnd()).joined(header, stored);
  }

  private static Manifest read(String sha256, ManifestSource source) throws IOException {
    return source.begin(stored -> {
      if (!ManifestFrames.begins(stored)) {
        source.checkName(stored);
        return Manifest.plain(ManifestFrames.text(stored), sha256);
      }
      ManifestFrames.Prefix prefix = ManifestFrames.Prefix.of(stored, sha256);
      return Manifest.framed(prefix.header(stored, sha256), sha256, prefix.headerEnd());
    });
  }

  /** Drops the least recently used manifests when the cache is full. */
  private static void keep(String sha256, Manifest manifest) {
    synchronized (CACHE) {
      CACHE.put(sha256, manifest);
      int files = CACHE.values().stream().mapToInt(Manifest::filesInMemory).sum();
      Iterator<Manifest> eldest = CACHE.values().iterator();
      while (CACHE.size() > 1 && (CACHE.size() > MAX_CACHED || files > MAX_CACHED_FILES)) {
        files -= eldest.next().filesInMemory();
        eldest.remove();
      }
    }
  }
}
