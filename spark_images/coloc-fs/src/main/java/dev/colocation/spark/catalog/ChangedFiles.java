package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.FileIndexes.ListedFiles;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.collection.mutable.LinkedHashMap$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Files of several commits. What a commit did with a file's rows, its id and its time are further partition columns: conditions
 * on them leave out files as those on the table's own do.
 */
final class ChangedFiles extends PartitioningAwareFileIndex {
  /** As Spark's {@code Changelog} asks for them. */
  static final StructType COLUMNS = new StructType()
      .add("_change_type", DataTypes.StringType, false)
      .add("_commit_version", DataTypes.LongType, false)
      .add("_commit_timestamp", DataTypes.TimestampType, false);

  /** A commit's files, all of which it changed in the same way. */
  record Commit(long version, Instant time, String change, ListedFiles files) {}

  private final Path root;
  private final List<Commit> commits;
  private final PartitionSpec partitions;
  private final Map<Path, FileStatus[]> folders = new LinkedHashMap<>();

  /**
   * The files of these commits.
   *
   * @param root of the newest commit's snapshot
   * @param partitionSchema the table's, by the names that files have, and {@link #COLUMNS}
   */
  ChangedFiles(SparkSession session, Path root, List<Commit> commits, StructType partitionSchema) {
    super(session, FilesRelation.scalaMap(Map.of()), Option.apply(partitionSchema), NoopCache$.MODULE$);
    this.root = root;
    this.commits = commits;
    int ofTable = partitionSchema.size() - COLUMNS.size();
    List<PartitionPath> paths = new ArrayList<>();
    for (int index = 0; index < commits.size(); index++) {
      Commit commit = commits.get(index);
      int of = index;
      Map<Path, FileStatus[]> found = commit.files().folders();
      found.forEach((folder, files) -> folders.put(folder(of, folder), files));
      if (ofTable == 0) {
        found.keySet().forEach(
            folder -> paths.add(new PartitionPath(values(commit, InternalRow.empty(), partitionSchema), folder(of, folder))));
      } else {
        CollectionConverters.asJava(commit.files().partitionSpec().partitions()).forEach(one -> paths.add(
            new PartitionPath(values(commit, one.values(), partitionSchema), folder(of, one.path()))));
      }
    }
    partitions = new PartitionSpec(partitionSchema, FilesRelation.sequence(paths));
  }

  /** Stands for a folder's files of one commit; another commit may have removed files of the same folder. */
  private static Path folder(int commit, Path folder) {
    return new Path(folder, "_commit=" + commit);
  }

  private static InternalRow values(Commit commit, InternalRow ofTable, StructType schema) {
    Object[] values = new Object[schema.size()];
    int column = 0;
    for (; column < ofTable.numFields(); column++) {
      values[column] = ofTable.get(column, schema.apply(column).dataType());
    }
    values[column++] = CatalystTypeConverters.convertToCatalyst(commit.change());
    values[column++] = commit.version();
    values[column] = ChronoUnit.MICROS.between(Instant.EPOCH, commit.time());
    return new GenericInternalRow(values);
  }

  @Override
  public Seq<Path> rootPaths() {
    return FilesRelation.sequence(List.of(root));
  }

  @Override
  public PartitionSpec partitionSpec() {
    return partitions;
  }

  @Override
  public scala.collection.mutable.LinkedHashMap<Path, FileStatus> leafFiles() {
    scala.collection.mutable.LinkedHashMap<Path, FileStatus> found = LinkedHashMap$.MODULE$.empty();
    commits.forEach(commit -> found.addAll(commit.files().leafFiles()));
    return found;
  }

  @Override
  public scala.collection.immutable.Map<Path, FileStatus[]> leafDirToChildrenFiles() {
    return Map$.MODULE$.from(CollectionConverters.asScala(folders));
  }

  @Override
  public void refresh() {}
}
