package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.NewestInStreams.NewestTables;
import java.lang.ref.SoftReference;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.collection.mutable.LinkedHashMap$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The file listings of a session's last tables. A listing follows from its key, which names the manifest, so none is ever
 * stale; a table of a hundred thousand files need not be listed for each query. It takes a hundred megabytes, so it is dropped
 * when memory is short.
 */
final class FileIndexes {
  private static final int MAX_LISTINGS = 16;

  /** Partition columns of timestamps are read in the time zone. */
  private record Key(String location, StructType schema, Map<String, String> options, String timeZone) {}

  private final Supplier<NewestTables> newest;
  private final Map<Key, SoftReference<InMemoryFileIndex>> listings = new LinkedHashMap<>(MAX_LISTINGS, 0.75f, true) {
    private static final long serialVersionUID = 1L;

    @Override
    protected boolean removeEldestEntry(Map.Entry<Key, SoftReference<InMemoryFileIndex>> eldest) {
      return size() > MAX_LISTINGS;
    }
  };

  /**
   * The listings of a catalog's tables.
   *
   * @param newest its present tables
   */
  FileIndexes(Supplier<NewestTables> newest) {
    this.newest = newest;
  }

  /** A listing that knows its catalog. */
  static final class OfCatalog extends InMemoryFileIndex {
    private final Supplier<NewestTables> newest;
    private final FilesByKey byKey;

    private OfCatalog(SparkSession session, Key key, Supplier<NewestTables> newest) {
      super(session, FilesRelation.sequence(List.of(new Path(key.location()))), FilesRelation.scalaMap(key.options()),
          Option.apply(key.schema()), NoopCache$.MODULE$, Option.empty(), Option.empty());
      this.newest = newest;
      byKey = new FilesByKey(new Path(key.location()), TableLoader.configuration(key.options()));
    }

    Supplier<NewestTables> newest() {
      return newest;
    }

    @Override
    public Seq<PartitionDirectory> listFiles(Seq<Expression> ofPartitions, Seq<Expression> ofRows) {
      return byKey.chosen(super.listFiles(ofPartitions, ofRows), ofRows);
    }
  }

  /** The files of a table's snapshot, with the columns by the names that files have. */
  synchronized InMemoryFileIndex of(SparkSession session, LoadedTable table, StructType schema) {
    String zone = session.sessionState().conf().sessionLocalTimeZone();
    Key key = new Key(table.location(), schema, table.fileSystem(), zone);
    SoftReference<InMemoryFileIndex> known = listings.get(key);
    InMemoryFileIndex index = known == null ? null : known.get();
    if (index == null) {
      index = new OfCatalog(session, key, newest);
      listings.put(key, new SoftReference<>(index));
    }
    return index;
  }

  /** Some of a snapshot's files. They never change. */
  static final class ListedFiles extends PartitioningAwareFileIndex {
    private final Path root;
    private final List<FileStatus> files;
    private final FilesByKey byKey;
    private PartitionSpec partitions;

    /**
     * A listing of these files.
     *
     * @param root of all files of the snapshot
     * @param schema of the table, by the names that files have
     * @param fileSystem its settings, which the session may lack
     */
    ListedFiles(SparkSession session, Path root, List<FileStatus> files, StructType schema, Map<String, String> fileSystem) {
      super(session, FilesRelation.scalaMap(fileSystem), Option.apply(schema), NoopCache$.MODULE$);
      this.root = root;
      this.files = files;
      byKey = new FilesByKey(root, TableLoader.configuration(fileSystem));
    }

    @Override
    public Seq<PartitionDirectory> listFiles(Seq<Expression> ofPartitions, Seq<Expression> ofRows) {
      return byKey.chosen(super.listFiles(ofPartitions, ofRows), ofRows);
    }

    @Override
    public Seq<Path> rootPaths() {
      return FilesRelation.sequence(List.of(root));
    }

    @Override
    public synchronized PartitionSpec partitionSpec() {
      if (partitions == null) {
        partitions = inferPartitioning();
      }
      return partitions;
    }

    @Override
    public scala.collection.mutable.LinkedHashMap<Path, FileStatus> leafFiles() {
      scala.collection.mutable.LinkedHashMap<Path, FileStatus> found = LinkedHashMap$.MODULE$.empty();
      files.forEach(file -> found.put(file.getPath(), file));
      return found;
    }

    @Override
    public scala.collection.immutable.Map<Path, FileStatus[]> leafDirToChildrenFiles() {
      return Map$.MODULE$.from(CollectionConverters.asScala(folders()));
    }

    Map<Path, FileStatus[]> folders() {
      Map<Path, List<FileStatus>> folders = new LinkedHashMap<>();
      files.forEach(file -> folders.computeIfAbsent(file.getPath().getParent(), folder -> new ArrayList<>()).add(file));
      Map<Path, FileStatus[]> found = new LinkedHashMap<>();
      folders.forEach((folder, children) -> found.put(folder, children.toArray(FileStatus[]::new)));
      return found;
    }

    @Override
    public void refresh() {}
  }
}
