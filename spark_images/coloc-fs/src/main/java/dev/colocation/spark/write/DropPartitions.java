package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import java.util.List;
import java.util.Map;

/**
 * Partitions go with all rows that are in them at the commit, as with SQL's DROP PARTITION.
 *
 * @param partitions each entry drops every partition that has its values; null = NULL
 */
public record DropPartitions(List<Map<String, String>> partitions) implements Change {
  public DropPartitions {
    partitions = List.copyOf(partitions);
  }

  @Override
  public String label() {
    return "drop-partitions";
  }

  @Override
  public boolean keepsFiles() {
    return true;
  }

  @Override
  public List<DataFile> kept(List<DataFile> committed) {
    return committed.stream().filter(file -> !Change.isIn(file, partitions)).toList();
  }

  /** It drops what it finds. */
  @Override
  public void checkOvertaking(List<DataFile> beganOn, List<DataFile> committed) {}
}
