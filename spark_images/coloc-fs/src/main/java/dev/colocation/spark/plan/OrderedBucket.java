package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.BiPredicate;
import org.apache.spark.Partition;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;

/**
 * A bucket's files in the order in which they are read.
 *
 * @param scanned the partition of the scan, which knows where the files lie
 * @param sets one after the other; the files of one set are merged
 */
record OrderedBucket(FilePartition scanned, List<PartitionedFile[]> sets) implements Partition {
  private static final long serialVersionUID = 1L;

  /** Every partition of a scan with its files in order, one by one. */
  static OrderedBucket[] inOrder(Partition[] scanned, Comparator<PartitionedFile> order) {
    return all(scanned, order, (one, other) -> false);
  }

  /** Every partition of a scan with its files in order; those that the order does not tell apart make a set. */
  static OrderedBucket[] inSets(Partition[] scanned, Comparator<PartitionedFile> order) {
    return all(scanned, order, (one, other) -> order.compare(one, other) == 0);
  }

  private static OrderedBucket[] all(
      Partition[] scanned, Comparator<PartitionedFile> order, BiPredicate<PartitionedFile, PartitionedFile> together) {
    return Arrays.stream(scanned)
        .map(partition -> of((FilePartition) partition, order, together))
        .toArray(OrderedBucket[]::new);
  }

  private static OrderedBucket of(
      FilePartition scanned, Comparator<PartitionedFile> order, BiPredicate<PartitionedFile, PartitionedFile> together) {
    PartitionedFile[] files = scanned.files().clone();
    Arrays.sort(files, order);
    List<PartitionedFile[]> sets = new ArrayList<>();
    int start = 0;
    for (int end = 1; end <= files.length; end++) {
      if (end == files.length || !together.test(files[start], files[end])) {
        sets.add(Arrays.copyOfRange(files, start, end));
        start = end;
      }
    }
    return new OrderedBucket(scanned, sets);
  }

  @Override
  public int index() {
    return scanned.index();
  }

  /** These files as a partition that the scan can read. */
  FilePartition partition(PartitionedFile... files) {
    return new FilePartition(index(), files);
  }
}
