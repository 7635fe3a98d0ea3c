package dev.colocation.spark.write;

import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.fs.Buckets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A running statement of this driver that replaces committed files by those of one of its writes. The write finds it by an id, the
 * option {@link WriteOptions#REPLACEMENT}.
 */
public interface FileReplacement {
  /**
   * The change that the written files make.
   *
   * @param buckets that they were made for
   * @throws WriteException.RowsDiffer when rows that have to stay are missing among them
   */
  Change change(List<DataFile> written, Buckets buckets);

  /** Whether no file is replaced, so that a write without rows changes nothing. */
  boolean replacesNothing();

  /** Whether all rows are committed ones in other files. Such rows are neither checked nor padded, and are not compacted again. */
  boolean isCompaction();

  /** The number of buckets that the files are made for, if it is another one than the table has. */
  default Optional<Integer> rebucketedTo() {
    return Optional.empty();
  }

  /** Identifies repetitions of the statement. */
  Optional<CommitKey> key();

  /** The transaction as of the snapshot that the statement has read. */
  Transaction begunOn(Transaction transaction);

  /** The statements that run. */
  final class Running {
    private static final Map<String, FileReplacement> BY_ID = new ConcurrentHashMap<>();

    private Running() {}

    /** Registers a statement until {@link #end}; returns its id. */
    public static String begin(FileReplacement replacement) {
      String id = UUID.randomUUID().toString();
      BY_ID.put(id, replacement);
      return id;
    }

    public static void end(String id) {
      BY_ID.remove(id);
    }

    static FileReplacement find(String id) {
      FileReplacement found = BY_ID.get(id);
      if (found == null) {
        throw new WriteException(WriteOptions.REPLACEMENT + " names no running statement; use UPDATE, DELETE, MERGE, or CALL "
            + "<catalog>.system.compact(table => …)");
      }
      return found;
    }
  }
}
