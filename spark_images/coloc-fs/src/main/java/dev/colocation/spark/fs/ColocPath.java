package dev.colocation.spark.fs;

import java.net.URI;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.InvalidPathException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import scala.collection.immutable.Seq;

/**
 * A location below one snapshot of one table: {@code coloc://<namespace>/<table>-<uid8>/<manifest sha256>/data/…}.
 *
 * <p>The manifest is part of the location, so a plan reads one snapshot throughout, even if rows are loaded meanwhile.
 *
 * @param namespace the Kubernetes namespace
 * @param directory the table's folder, {@code <table>-<uid8>}
 * @param manifest the manifest's SHA-256, 64 hex digits, or {@link Manifest#NOTHING}
 * @param relative the rest, without a leading slash: empty, {@code data} or {@code data/…}
 */
public record ColocPath(String namespace, String directory, String manifest, String relative) {
  public static final String SCHEME = "coloc";

  private static final Pattern SHA256 = Pattern.compile("[0-9a-f]{64}|" + Manifest.NOTHING);

  /**
   * Parses a location.
   *
   * @throws InvalidPathException when it is not of the form above
   */
  public static ColocPath parse(Path path) {
    URI uri = path.toUri();
    String[] parts = uri.getPath() == null ? new String[0] : uri.getPath().split("/", 4);
    boolean wellFormed = SCHEME.equals(uri.getScheme())
        && uri.getAuthority() != null
        && parts.length >= 3
        && !parts[1].isEmpty()
        && SHA256.matcher(parts[2]).matches();
    if (!wellFormed) {
      throw new InvalidPathException(
          path.toString(), "allowed: coloc://<namespace>/<table>-<uid8>/<manifest sha256>/data/…");
    }
    return new ColocPath(uri.getAuthority(), parts[1], parts[2], parts.length > 3 ? parts[3] : "");
  }

  /** Whether a relation consists of one table's snapshot only. */
  public static boolean isRootOf(HadoopFsRelation relation) {
    Seq<Path> roots = relation.location().rootPaths();
    return roots.size() == 1 && SCHEME.equals(roots.head().toUri().getScheme());
  }

  /** The location of another file or folder of the same snapshot. */
  public Path resolve(String otherRelative) {
    String suffix = otherRelative.isEmpty() ? "" : "/" + otherRelative;
    return new Path(SCHEME, namespace, "/" + directory + "/" + manifest + suffix);
  }

  /** The table's name in messages. */
  public String table() {
    return namespace + "." + directory;
  }
}
