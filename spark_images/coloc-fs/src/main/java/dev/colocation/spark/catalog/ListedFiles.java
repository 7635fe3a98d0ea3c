package dev.colocation.spark.catalog;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.collection.mutable.LinkedHashMap$;
import scala.jdk.javaapi.CollectionConverters;

/** Some of a snapshot's files. They never change. */
final class ListedFiles extends PartitioningAwareFileIndex {
  private final Path root;
  private final List<FileStatus> files;
  private PartitionSpec partitions;

  /**
   * These files.
   *
   * @param root of all files of the snapshot
   * @param schema of the table, by the names that files have
   */
  ListedFiles(SparkSession session, Path root, List<FileStatus> files, StructType schema) {
    super(session, FilesRelation.scalaMap(Map.of()), Option.apply(schema), NoopCache$.MODULE$);
    this.root = root;
    this.files = files;
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
    Map<Path, List<FileStatus>> folders = new LinkedHashMap<>();
    files.forEach(file -> folders.computeIfAbsent(file.getPath().getParent(), folder -> new ArrayList<>()).add(file));
    Map<Path, FileStatus[]> found = new LinkedHashMap<>();
    folders.forEach((folder, children) -> found.put(folder, children.toArray(FileStatus[]::new)));
    return Map$.MODULE$.from(CollectionConverters.asScala(found));
  }

  @Override
  public void refresh() {}
}
