package dev.colocation.spark.write;

import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * What users say of a write: {@code df.writeTo(t).option(…)}, in SQL {@code SET spark.colocation.write.…}.
 *
 * @param key by which a repetition of the write is known; empty = none
 * @param targetFileSize bytes of Spark's shuffle that one task writes; files are smaller, those of a compaction may be larger
 * @param id by which the writer asks for the {@link WriteResult}
 * @param merged the files whose rows are written, of a compaction
 */
public record WriteOptions(Optional<CommitKey> key, long targetFileSize, Optional<String> id, Optional<FilesToMerge> merged) {
  public static final String ID = "write-id";
  public static final String MERGE = "merge-id";
  static final String KEY = "idempotency-key";
  static final String VERSION = "idempotency-version";
  static final String FILE_SIZE = "target-file-size";

  private static final String SESSION_KEY = "spark.colocation.write.idempotencyKey";
  private static final String SESSION_FILE_SIZE = "spark.colocation.write.targetFileSize";
  private static final String DEFAULT_FILE_SIZE = "512m";

  private static final List<String> NAMES = List.of(ID, MERGE, KEY, VERSION, FILE_SIZE);

  /**
   * Reads them.
   *
   * @throws IllegalArgumentException for what is no value of an option, or is another spelling of its name
   */
  static WriteOptions of(CaseInsensitiveStringMap options) {
    refuseOtherSpellings(options);
    SQLConf conf = SQLConf.get();
    String key = options.getOrDefault(KEY, conf.getConfString(SESSION_KEY, ""));
    String size = options.getOrDefault(FILE_SIZE, conf.getConfString(SESSION_FILE_SIZE, DEFAULT_FILE_SIZE));
    Optional<FilesToMerge> merged = Optional.ofNullable(options.get(MERGE)).map(FilesToMerge::find);
    // A compaction repeats nothing, whatever key the session has for its statements.
    boolean hasKey = !key.isEmpty() && merged.isEmpty();
    if (key.isEmpty() && (options.containsKey(KEY) || options.containsKey(VERSION))) {
      throw new InvalidOption(KEY + " is " + (options.containsKey(KEY) ? "empty" : "missing beside " + VERSION)
          + "; allowed: 1 to " + CommitKey.MAX_WRITER_CHARACTERS + " characters");
    }
    return new WriteOptions(
        hasKey ? Optional.of(new CommitKey(key, version(options))) : Optional.empty(), bytes(size),
        Optional.ofNullable(options.get(ID)), merged);
  }

  /** Spark takes any option: a key that is not known as one would let a repeated write be a second one. */
  private static void refuseOtherSpellings(CaseInsensitiveStringMap options) {
    for (String given : options.keySet()) {
      NAMES.stream().filter(name -> !name.equals(given) && letters(name).equals(letters(given))).findFirst().ifPresent(name -> {
        throw new InvalidOption("option '" + given + "'; it is spelt '" + name + "'");
      });
    }
  }

  private static String letters(String name) {
    return name.toLowerCase(Locale.ROOT).replaceAll("[^a-z]", "");
  }

  private static long version(CaseInsensitiveStringMap options) {
    try {
      return options.getLong(VERSION, 0);
    } catch (NumberFormatException error) {
      throw new InvalidOption(VERSION + "='" + options.get(VERSION) + "'; allowed: a whole number from 0");
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
}
