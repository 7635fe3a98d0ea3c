package dev.colocation.spark.write;

import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.WriteException.InvalidOption;
import dev.colocation.spark.write.WriteTarget.Writable;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Options of a write: {@code df.writeTo(t).option(…)}, in SQL {@code SET spark.colocation.write.…}.
 *
 * @param key identifies repetitions of the write; empty = none
 * @param targetFileSize bytes of a file, about; a task takes twice as many of Spark's shuffle, as Parquet is smaller
 * @param id finds the {@link WriteResult} afterwards
 * @param replacement the statement whose files the write makes, if it replaces committed ones
 */
public record WriteOptions(
    Optional<CommitKey> key, long targetFileSize, Optional<String> id, Optional<FileReplacement> replacement) {
  public static final String ID = "write-id";
  public static final String REPLACEMENT = "replacement-id";
  static final String KEY = "idempotency-key";
  static final String VERSION = "idempotency-version";
  static final String FILE_SIZE = "target-file-size";

  /** Delta's names of key and version. */
  private static final String DELTAS_KEY = "txnAppId";
  private static final String DELTAS_VERSION = "txnVersion";

  private static final String OF_SESSION = "spark.colocation.write.";
  private static final String SESSION_KEY = OF_SESSION + "idempotencyKey";
  private static final String SESSION_FILE_SIZE = OF_SESSION + "targetFileSize";
  private static final String DEFAULT_FILE_SIZE = "256m";

  /**
   * Reads them.
   *
   * @throws InvalidOption for invalid values, and for options that contradict each other
   */
  static WriteOptions of(CaseInsensitiveStringMap options) {
    return of(options, CollectionConverters.asJava(SQLConf.get().getAllConfs()));
  }

  static WriteOptions of(CaseInsensitiveStringMap options, Map<String, String> session) {
    refuseOtherSettings(session.keySet());
    String size = options.getOrDefault(FILE_SIZE, session.getOrDefault(SESSION_FILE_SIZE, DEFAULT_FILE_SIZE));
    Optional<FileReplacement> replacement =
        Optional.ofNullable(options.get(REPLACEMENT)).map(FileReplacement.Running::find);
    Optional<CommitKey> key = replacement.isPresent()
        ? replacement.get().key() : key(options, session.getOrDefault(SESSION_KEY, ""));
    return new WriteOptions(key, bytes(size), Optional.ofNullable(options.get(ID)), replacement);
  }

  /**
   * The session's key, for statements that take no options.
   *
   * @throws InvalidOption for an invalid one
   */
  public static Optional<CommitKey> keyOfSession() {
    return ofSession().key();
  }

  /** The session's options, for statements that take none. */
  static WriteOptions ofSession() {
    return of(CaseInsensitiveStringMap.empty());
  }

  /** Files of fewer bytes are worth a compaction: no full file is so small. */
  long smallFileSize() {
    return targetFileSize / 4;
  }

  /** Bytes of Spark's shuffle for a task. */
  long shuffledSize() {
    return 2 * targetFileSize;
  }

  /** Whether the rows are those of a compaction. */
  boolean isCompaction() {
    return replacement.map(FileReplacement::isCompaction).orElse(false);
  }

  /** The number of buckets that the files are made for. */
  int buckets(Writable table) {
    return replacement.flatMap(FileReplacement::rebucketedTo).orElseGet(table::plannedBuckets);
  }

  /** Refuses unknown settings, which Spark takes: with a misspelt key, a repeated write would be written twice. */
  private static void refuseOtherSettings(Set<String> session) {
    session.stream()
        .filter(name -> name.startsWith(OF_SESSION) && !name.equals(SESSION_KEY) && !name.equals(SESSION_FILE_SIZE))
        .findFirst().ifPresent(name -> {
          throw new InvalidOption("the session sets " + name + ", which is unknown; allowed: " + SESSION_KEY + ", " + SESSION_FILE_SIZE
              + ". RESET it");
        });
  }

  private static Optional<CommitKey> key(CaseInsensitiveStringMap options, String ofSession) {
    boolean isOurs = options.containsKey(KEY) || options.containsKey(VERSION);
    boolean isDeltas = options.containsKey(DELTAS_KEY) || options.containsKey(DELTAS_VERSION);
    if (isOurs && isDeltas) {
      throw new InvalidOption(KEY + " (or " + VERSION + ") and " + DELTAS_KEY + " (or " + DELTAS_VERSION
          + ") both name the write; give one of them");
    }
    if (isDeltas) {
      return Optional.of(deltasKey(options));
    }
    String key = options.getOrDefault(KEY, ofSession);
    if (key.isEmpty() && isOurs) {
      throw new InvalidOption(KEY + " is " + (options.containsKey(KEY) ? "empty" : "missing, which " + VERSION + " needs")
          + "; allowed: 1 to " + CommitKey.MAX_WRITER_CHARACTERS + " characters");
    }
    return key.isEmpty() ? Optional.empty() : Optional.of(new CommitKey(key, version(options, VERSION, "0")));
  }

  private static CommitKey deltasKey(CaseInsensitiveStringMap options) {
    if (!options.containsKey(DELTAS_KEY) || !options.containsKey(DELTAS_VERSION)) {
      throw new InvalidOption(DELTAS_KEY + " and " + DELTAS_VERSION + " name a write together; give both");
    }
    return new CommitKey(options.get(DELTAS_KEY), version(options, DELTAS_VERSION, ""));
  }

  private static long version(CaseInsensitiveStringMap options, String name, String otherwise) {
    String given = options.getOrDefault(name, otherwise);
    try {
      return Long.parseLong(given);
    } catch (NumberFormatException error) {
      throw new InvalidOption(name + "='" + given + "'; allowed: a whole number from 0");
    }
  }

  private static long bytes(String size) {
    long bytes;
    try {
      bytes = JavaUtils.byteStringAsBytes(size);
    } catch (NumberFormatException error) {
      bytes = 0;
    }
    if (bytes <= 0) {
      throw new InvalidOption(FILE_SIZE + "='" + size + "'; allowed: bytes, or a size such as 256m");
    }
    return bytes;
  }

  /**
   * The rows that an overwrite replaces, as far as its options choose them.
   *
   * @param where a condition of partition columns
   * @param isDynamic whether it replaces the partitions of the new rows only; empty = no option
   */
  public record ReplacedRows(Optional<String> where, Optional<Boolean> isDynamic) {
    public static final String WHERE = "replaceWhere";

    private static final List<String> MODES = List.of("partitionOverwriteMode", "overwrite-mode");
    private static final String DYNAMIC = "dynamic";
    private static final String STATIC = "static";

    /**
     * Reads them.
     *
     * @throws InvalidOption for what is no value of an option, and for options that contradict each other
     */
    public static ReplacedRows of(CaseInsensitiveStringMap options) {
      Optional<String> where = Optional.ofNullable(options.get(WHERE));
      List<Boolean> modes = MODES.stream().filter(options::containsKey).map(name -> isDynamic(name, options.get(name))).distinct().toList();
      if (modes.size() > 1) {
        throw new InvalidOption(MODES.get(1) + "='" + options.get(MODES.get(1)) + "' and " + MODES.get(0) + "='"
            + options.get(MODES.get(0)) + "' contradict each other; give one of them");
      }
      if (where.isPresent() && modes.contains(true)) {
        throw new InvalidOption(WHERE + "='" + where.get() + "' and partitionOverwriteMode (or overwrite-mode) 'dynamic' contradict "
            + "each other; give one of them");
      }
      return new ReplacedRows(where, modes.stream().findFirst());
    }

    private static boolean isDynamic(String name, String value) {
      if (!DYNAMIC.equalsIgnoreCase(value) && !STATIC.equalsIgnoreCase(value)) {
        throw new InvalidOption(name + "='" + value + "'; allowed: dynamic, static");
      }
      return DYNAMIC.equalsIgnoreCase(value);
    }
  }
}
