package dev.colocation.spark.write;

import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.write.Change.Rebucket;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * All files of a table, which are written again for another number of buckets.
 *
 * @param files all that are committed
 * @param ofTable the new number
 */
public record Rebucketing(List<DataFile> files, int ofTable) implements FileReplacement {
  public Rebucketing {
    files = List.copyOf(files);
  }

  @Override
  public boolean replacesNothing() {
    return files.isEmpty();
  }

  @Override
  public boolean isCompaction() {
    return true;
  }

  @Override
  public Optional<Integer> rebucketedTo() {
    return Optional.of(ofTable);
  }

  /** None, even if the session sets one for its statements: a repetition finds the number there. */
  @Override
  public Optional<CommitKey> key() {
    return Optional.empty();
  }

  /** As it is: the commit compares files. */
  @Override
  public Transaction begunOn(Transaction transaction) {
    return transaction;
  }

  /**
   * Replaces all files by others.
   *
   * @throws WriteException.RowsDiffer when rows were added, lost or moved
   */
  @Override
  public Rebucket change(List<DataFile> written, Buckets buckets) {
    Tablet.ofPlaces(files, written).ifPresent(difference -> {
      throw difference.refusal();
    });
    return new Rebucket(files.stream().map(DataFile::path).collect(Collectors.toSet()), written, buckets);
  }
}
