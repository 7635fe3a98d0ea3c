package dev.colocation.spark.catalog;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Some of a table's files.
 *
 * @param all the table's
 * @param chosen by their paths
 */
record ChosenFiles(FileIndex all, Set<Path> chosen) implements FileIndex {
  @Override
  public Seq<Path> rootPaths() {
    return all.rootPaths();
  }

  @Override
  public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    List<PartitionDirectory> found = new ArrayList<>();
    for (PartitionDirectory folder : CollectionConverters.asJava(all.listFiles(partitionFilters, dataFilters))) {
      List<FileStatusWithMetadata> files = CollectionConverters.asJava(folder.files()).stream()
          .filter(file -> chosen.contains(file.getPath())).toList();
      if (!files.isEmpty()) {
        found.add(new PartitionDirectory(folder.values(), FilesRelation.sequence(files)));
      }
    }
    return FilesRelation.sequence(found);
  }

  @Override
  public String[] inputFiles() {
    return chosen.stream().map(Path::toString).sorted().toArray(String[]::new);
  }

  /** Files of a snapshot never change. */
  @Override
  public void refresh() {}

  @Override
  public long sizeInBytes() {
    return all.sizeInBytes();
  }

  @Override
  public StructType partitionSchema() {
    return all.partitionSchema();
  }
}
