package dev.colocation.spark.cluster;

/**
 * By which a repeated commit is known: a table takes each version of a writer once.
 *
 * @param writer a streaming query's id, or a key that somebody chose; 1 to 128 characters
 * @param version counts up with each commit of the writer, such as a stream's epoch; 0 for a key of one commit
 */
public record CommitKey(String writer, long version) {
  /** So that a table's status stays small. */
  public static final int MAX_WRITER_CHARACTERS = 128;

  /** JSON's numbers are exact up to here in every language that reads them. */
  public static final long MAX_VERSION = (1L << 53) - 1;

  public CommitKey {
    int characters = writer.codePointCount(0, writer.length());
    if (characters < 1 || characters > MAX_WRITER_CHARACTERS) {
      throw new InvalidOption("the writer of a commit has " + characters + " characters; allowed: 1 to "
          + MAX_WRITER_CHARACTERS);
    }
    if (version < 0 || version > MAX_VERSION) {
      throw new InvalidOption("version " + version + " of writer " + writer + "; allowed: 0 to " + MAX_VERSION);
    }
  }
}
