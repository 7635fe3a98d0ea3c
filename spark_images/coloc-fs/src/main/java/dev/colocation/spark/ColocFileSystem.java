package dev.colocation.spark;

import dev.colocation.spark.fs.AgentAddresses;
import dev.colocation.spark.fs.AgentAddresses.AgentAddress;
import dev.colocation.spark.fs.AgentHttp;
import dev.colocation.spark.fs.ColocPath;
import dev.colocation.spark.fs.ExecutorHosts.ColocFileStatus;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.fs.ManifestStore;
import dev.colocation.spark.fs.ReadMetrics.ReadCounters;
import dev.colocation.spark.fs.Replica;
import dev.colocation.spark.fs.Replica.LocalReplica;
import dev.colocation.spark.fs.Replica.RemoteReplica;
import dev.colocation.spark.fs.ReplicaInputStream;
import dev.colocation.spark.fs.ReplicaReader;
import dev.colocation.spark.fs.Settings;
import dev.colocation.spark.fs.SuspectedCopies;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * Tables of colocation groups as files: {@code coloc://<namespace>/<table>-<uid8>/<manifest sha256>/data/…}, read only.
 *
 * <p>The manifest lists all files. {@link #open} reads the replica on this node's disk if there is one, else another node's, so a
 * task can run on any node; it is only slower.
 */
public final class ColocFileSystem extends FileSystem {
  private static final long BLOCK_BYTES = 128L << 20;
  private static final FsPermission READ_ONLY = new FsPermission((short) 0444);

  private URI uri;
  private Settings settings;

  @Override
  public void initialize(URI name, Configuration configuration) throws IOException {
    super.initialize(name, configuration);
    setConf(configuration);
    uri = URI.create(name.getScheme() + "://" + name.getAuthority());
    settings = new Settings(configuration);
  }

  @Override
  public String getScheme() {
    return ColocPath.SCHEME;
  }

  @Override
  public URI getUri() {
    return uri;
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    ColocPath location = ColocPath.parse(makeQualified(path));
    Manifest.File file = ManifestStore.file(location, settings);
    if (file == null) {
      throw new FileNotFoundException(path + ": the table's manifest names no such file");
    }
    String description =
        "table " + location.table() + ", bucket " + file.bucket() + ", file " + location.relative();
    List<Replica> replicas = replicas(location, file);
    if (replicas.isEmpty()) {
      throw new FileNotFoundException(description + ": it is not on this node's disk below " + settings.dataRoot()
          + ", and no agent is known; name the table by its catalog");
    }
    ReplicaReader reader =
        new ReplicaReader(description, replicas, settings.readDeadline(), ReadCounters.OF_THIS_JVM);
    return new FSDataInputStream(new ReplicaInputStream(reader, file.bytes(), statistics));
  }

  /**
   * The replicas of a file, in the order in which they are read: this node's disk if it holds the whole file, the bucket's nodes
   * (this one first, those that failed lately after the others), then all other nodes, since a bucket may have moved after the
   * query was planned, and last those that the operator last reported not ready.
   *
   * <p>An executor sees its own namespace's files on the disk. Files of other namespaces it reads from agents, which authenticate
   * it.
   */
  private List<Replica> replicas(ColocPath location, Manifest.File file) throws IOException {
    List<Replica> replicas = new ArrayList<>();
    java.nio.file.Path local = settings.dataRoot()
        .resolve(location.namespace()).resolve(location.directory()).resolve(location.relative());
    if (Files.isRegularFile(local) && Files.size(local) == file.bytes()) {
      replicas.add(new LocalReplica(local));
    }
    Settings.Group group = groupOf(location);
    List<AgentAddress> agents = AgentAddresses.of(group, settings);
    List<String> owners = group.nodesOf(file.bucket());
    String here = settings.node();
    agents.sort(Comparator.comparing((AgentAddress agent) -> !agent.isReady())
        .thenComparing(agent -> !owners.contains(agent.node()))
        .thenComparing(AgentAddress::failedLately)
        .thenComparing(agent -> !agent.node().equals(here)));
    AgentHttp http = AgentHttp.shared(settings);
    for (AgentAddress agent : agents) {
      replicas.add(new RemoteReplica(http, agent, location, settings.requestTimeout()));
    }
    return SuspectedCopies.isRepeatedTask() ? SuspectedCopies.ordered(replicas, here) : replicas;
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    ColocPath location = ColocPath.parse(makeQualified(path));
    Manifest.File file = ManifestStore.file(location, settings);
    if (file != null) {
      return located(location, location.relative(), file, groupOf(location));
    }
    // A table without files is an empty folder, as Spark expects of a table that was just made.
    if (location.relative().isEmpty() || location.relative().equals("data") || isFolder(location)) {
      return folder(path);
    }
    throw new FileNotFoundException(path + ": the table's manifest names no such file or folder");
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    FileStatus status = getFileStatus(path);
    if (status.isFile()) {
      return new FileStatus[] {status};
    }
    ColocPath location = ColocPath.parse(makeQualified(path));
    Settings.Group group = groupOf(location);
    int prefix = prefix(location).length();
    Map<String, FileStatus> children = new TreeMap<>();
    ManifestStore.visit(location, settings, prefix(location), (relative, file) -> {
      int slash = relative.indexOf('/', prefix);
      String child = slash < 0 ? relative : relative.substring(0, slash);
      if (!children.containsKey(child)) {
        children.put(child, slash < 0 ? located(location, child, file, group) : folder(location.resolve(child)));
      }
    });
    return children.values().toArray(FileStatus[]::new);
  }

  /** All files below a folder in one step; Spark lists with this ({@code useListFilesFileSystemList}). */
  @Override
  public RemoteIterator<LocatedFileStatus> listFiles(Path path, boolean recursive) throws IOException {
    FileStatus status = getFileStatus(path);
    ColocPath location = ColocPath.parse(makeQualified(path));
    List<LocatedFileStatus> found = new ArrayList<>();
    if (status.isFile()) {
      found.add((LocatedFileStatus) status);
    } else {
      Settings.Group group = groupOf(location);
      int prefix = prefix(location).length();
      ManifestStore.visit(location, settings, prefix(location), (relative, file) -> {
        if (recursive || relative.indexOf('/', prefix) < 0) {
          found.add(located(location, relative, file, group));
        }
      });
    }
    return iterate(found.iterator());
  }

  @Override
  public BlockLocation[] getFileBlockLocations(FileStatus status, long start, long length) throws IOException {
    return getFileBlockLocations(status.getPath(), start, length);
  }

  @Override
  public BlockLocation[] getFileBlockLocations(Path path, long start, long length) throws IOException {
    FileStatus status = getFileStatus(path);
    return status instanceof LocatedFileStatus file ? file.getBlockLocations() : new BlockLocation[0];
  }

  private static ColocFileStatus located(
      ColocPath location, String relative, Manifest.File file, Settings.Group group) {
    FileStatus status = new FileStatus(
        file.bytes(), false, 1, BLOCK_BYTES, 0, 0, READ_ONLY, null, null, location.resolve(relative));
    return new ColocFileStatus(status, group, file.bucket());
  }

  private Settings.Group groupOf(ColocPath location) throws IOException {
    return settings.groupOf(location.namespace(), location.directory());
  }

  private FileStatus folder(Path path) {
    return new FileStatus(0, true, 1, BLOCK_BYTES, 0, 0, READ_ONLY, null, null, makeQualified(path));
  }

  private static String prefix(ColocPath location) {
    return location.relative().isEmpty() ? "" : location.relative() + "/";
  }

  private boolean isFolder(ColocPath location) throws IOException {
    List<String> below = new ArrayList<>();
    ManifestStore.visit(location, settings, prefix(location), (relative, file) -> below.add(relative));
    return !below.isEmpty();
  }

  private static RemoteIterator<LocatedFileStatus> iterate(Iterator<LocatedFileStatus> files) {
    return new RemoteIterator<>() {
      @Override
      public boolean hasNext() {
        return files.hasNext();
      }

      @Override
      public LocatedFileStatus next() {
        return files.next();
      }
    };
  }

  @Override
  public Path getWorkingDirectory() {
    return new Path(uri.toString() + "/");
  }

  @Override
  public void setWorkingDirectory(Path path) {
    // Locations are always absolute.
  }

  @Override
  public FSDataOutputStream create(
      Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication, long blockSize,
      Progressable progress) {
    throw readOnly();
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) {
    throw readOnly();
  }

  @Override
  public boolean rename(Path from, Path to) {
    throw readOnly();
  }

  @Override
  public boolean delete(Path path, boolean recursive) {
    throw readOnly();
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) {
    throw readOnly();
  }

  private static UnsupportedOperationException readOnly() {
    return new UnsupportedOperationException(
        "coloc:// is read only; write rows with INSERT INTO a catalog's table, or with colocation.spark.load(df, table)");
  }
}
