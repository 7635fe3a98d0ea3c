package dev.colocation.spark.write;

import com.fasterxml.jackson.annotation.JsonProperty;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.plan.FileChains;
import dev.colocation.spark.write.Change.Rewrite;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The files of a compaction. Their rows are written like those of any other query; an option ({@link WriteOptions#REPLACEMENT}) tells
 * the write which files it replaces.
 *
 * @param files of a bucket and partition all, or none, or those of a range of keys
 */
public record Compaction(List<DataFile> files) implements FileReplacement {
  public Compaction {
    files = List.copyOf(files);
  }

  /**
   * The files of every bucket and partition that has too many.
   *
   * @param committed all of the table
   * @param partitions the partitions to compact, see {@link Change#isIn}; none = all
   */
  public static Compaction of(List<DataFile> committed, Rule rule, List<Map<String, String>> partitions) {
    List<DataFile> chosen = committed.stream().filter(file -> partitions.isEmpty() || Change.isIn(file, partitions)).toList();
    return new Compaction(tablets(chosen).stream().map(rule::crowded).flatMap(List::stream).toList());
  }

  /**
   * When a bucket and partition has too many files: those that have to be read side by side, or the small ones.
   *
   * @param mostFiles how many of each may stay
   * @param sorted the files' order
   * @param smallBytes files of fewer bytes are small
   */
  public record Rule(int mostFiles, FileChains<DataFile> sorted, long smallBytes) {
    /**
     * The rule for a table.
     *
     * @param sortColumns how many columns its files are sorted by
     */
    public static Rule of(int mostFiles, int sortColumns) {
      return new Rule(mostFiles, new FileChains<>(DataFile::keys, sortColumns), WriteOptions.ofSession().smallFileSize());
    }

    /** The files to merge: from the first one that is small or overlaps another, in the order of keys, up to the last one. */
    private List<DataFile> crowded(List<DataFile> tablet) {
      if (sorted.chains(tablet).size() <= mostFiles && tablet.stream().filter(this::isSmall).count() <= mostFiles) {
        return List.of();
      }
      List<List<DataFile>> groups = sorted.groups(tablet);
      int[] taken = IntStream.range(0, groups.size()).filter(place -> !stays(groups.get(place))).toArray();
      return groups.subList(taken[0], taken[taken.length - 1] + 1).stream().flatMap(List::stream).toList();
    }

    private boolean stays(List<DataFile> group) {
      return group.size() == 1 && !isSmall(group.get(0));
    }

    private boolean isSmall(DataFile file) {
      return file.bytes() < smallBytes;
    }
  }

  /** The files by bucket and partition. */
  public List<List<DataFile>> tablets() {
    return tablets(files);
  }

  private static List<List<DataFile>> tablets(List<DataFile> files) {
    return List.copyOf(files.stream().collect(Collectors.groupingBy(Tablet::of)).values());
  }

  /**
   * The same files in parts of whole partitions, of similar sizes.
   *
   * @param most how many parts; fewer when there are fewer partitions
   */
  public List<Compaction> parts(int most) {
    Map<Map<String, String>, List<DataFile>> byPartition = files.stream().collect(Collectors.groupingBy(DataFile::partition));
    List<List<DataFile>> parts = new ArrayList<>();
    for (int part = 0; part < Math.min(most, byPartition.size()); part++) {
      parts.add(new ArrayList<>());
    }
    byPartition.values().stream().sorted(Comparator.comparingLong(Compaction::bytes).reversed())
        .forEach(files -> parts.stream().min(Comparator.comparingLong(Compaction::bytes)).orElseThrow().addAll(files));
    return parts.stream().map(Compaction::new).toList();
  }

  private static long bytes(List<DataFile> files) {
    return files.stream().mapToLong(DataFile::bytes).sum();
  }

  public boolean isEmpty() {
    return files.isEmpty();
  }

  @Override
  public boolean replacesNothing() {
    return isEmpty();
  }

  @Override
  public boolean isCompaction() {
    return true;
  }

  /** None, even if the session sets one for its statements. */
  @Override
  public Optional<CommitKey> key() {
    return Optional.empty();
  }

  /** As it is: the files that it read only have to be there. */
  @Override
  public Transaction begunOn(Transaction transaction) {
    return transaction;
  }

  /**
   * Replaces these files by others.
   *
   * @throws WriteException.RowsDiffer when rows were added, lost or moved
   */
  @Override
  public Rewrite change(List<DataFile> merged, Buckets buckets) {
    Tablet.difference(files, DataFile::rows, merged).ifPresent(difference -> {
      throw difference.refusal();
    });
    return new Rewrite(files.stream().map(DataFile::path).collect(Collectors.toSet()), merged, buckets);
  }

  /**
   * What a compaction committed; all zero but {@code snapshotId} when there was nothing to do.
   *
   * @param partitions whose files were rewritten
   * @param filesBefore files that were merged
   * @param filesAfter new files
   * @param rows in those files
   * @param bytes of the new files, one replica
   * @param snapshotId the table's newest snapshot; 0 = it holds no rows yet
   * @param replicasMissing copies of new files that the operator has yet to make
   */
  public record Result(
      long partitions, @JsonProperty("files_before") long filesBefore, @JsonProperty("files_after") long filesAfter, long rows,
      long bytes, @JsonProperty("snapshot_id") long snapshotId, @JsonProperty("replicas_missing") int replicasMissing) {

    /** The result for a table whose newest snapshot has nothing to merge. */
    public static Result nothing(long snapshotId) {
      return new Result(0, 0, 0, 0, 0, snapshotId, 0);
    }
  }

  /** The compaction that {@code spec.compaction} asks for after a write. */
  static final class AfterWrite {
    private static final Logger LOG = LoggerFactory.getLogger(AfterWrite.class);
    private static final int MAX_FAILURE_CHARACTERS = 500;

    private AfterWrite() {}

    /**
     * Its outcome.
     *
     * @param result null = not enabled, or nothing to do
     * @param failure empty = none
     */
    record Outcome(Result result, String failure) {
      static final Outcome NONE = new Outcome(null, "");
    }

    /** The write is committed, so a failure here is a warning in the log and in the write's result, never an error. */
    static Outcome after(WriteTarget target, ColocatedTable table) {
      try {
        if (!table.compactsAfterWrites()) {
          return Outcome.NONE;
        }
        Result done = target.compaction().run(table.maxFilesPerBucket());
        return done.filesBefore() == 0 ? Outcome.NONE : new Outcome(done, "");
      } catch (Exception | LinkageError error) {
        LOG.warn("the load of {} is committed; not compacted", target.name(), error);
        return new Outcome(null, said(error));
      }
    }

    /** An error in one line: its type, unless the message begins with one, and the beginning of the message. */
    private static String said(Throwable error) {
      String text = String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
      String type = error instanceof WriteException ? "" : error.getClass().getSimpleName() + ": ";
      return type + text.substring(0, Math.min(text.length(), MAX_FAILURE_CHARACTERS));
    }
  }
}
