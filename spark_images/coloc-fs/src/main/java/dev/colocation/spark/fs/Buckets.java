package dev.colocation.spark.fs;

import java.io.Serializable;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * How many buckets a table's files have, and how their names tell the bucket; see {@code model/table_manifest.py}.
 *
 * <p>A table has as many buckets as its group, or a multiple m of them. Its bucket j is placed with the group's bucket {@code j mod
 * ofGroup}, which holds the same rows as m of the table's: {@code pmod(hash, 8 * m) mod 8 = pmod(hash, 8)}. A file's name ends with
 * the table's bucket, which Spark reads ({@code _00012}); where the numbers differ, the group's comes before it ({@code
 * -g00004_00012}), so that agents know a file's place by its name alone.
 *
 * @param ofGroup the group's number
 * @param ofTable the table's number
 */
public record Buckets(int ofGroup, int ofTable) implements Serializable {
  /** {@code org.apache.spark.sql.execution.datasources.BucketingUtils.bucketedFileName}. */
  private static final Pattern BUCKET_IN_FILE_NAME = Pattern.compile(".*_(\\d+)(?:\\..*)?$");

  private static final String MARK = "-g";
  private static final int DIGITS = 5;
  private static final int MOST_DIGITS = 9;

  /** As many as the group. */
  public static Buckets asGroup(int buckets) {
    return new Buckets(buckets, buckets);
  }

  /** Whether the table has the same number as its group. */
  public boolean areEqual() {
    return ofGroup == ofTable;
  }

  /** The group's bucket with which a bucket of the table is placed. */
  public int place(int bucketOfTable) {
    return bucketOfTable % ofGroup;
  }

  /** The end of a file's name up to its extensions. */
  public String suffix(int bucketOfTable) {
    String named = String.format(Locale.ROOT, "_%05d", bucketOfTable);
    return areEqual() ? named : String.format(Locale.ROOT, MARK + "%05d", place(bucketOfTable)) + named;
  }

  /** The group's bucket that a file's name tells; -1 when it tells none. */
  public static int placeOf(String path) {
    Named named = Named.of(path);
    return named == null ? -1 : number(named.placed());
  }

  /** The table's bucket that Spark reads from a file's name; -1 when the name has none. */
  public static int bucketOf(String path) {
    Named named = Named.of(path);
    return named == null ? -1 : number(named.digits);
  }

  /**
   * Why a file may not be listed in a bucket of the group; empty when it may. Spark reads the table's bucket from the name, and a
   * wrong one would lose rows in joins silently.
   */
  public String refusal(String path, int bucketOfGroup) {
    Named named = Named.of(path);
    if (bucketOfGroup < 0 || named == null || !named.placed().equals(fiveDigits(bucketOfGroup))) {
      return "file " + path + " is listed in bucket " + bucketOfGroup + " but its name has another one";
    }
    if (bucketOfGroup >= ofGroup) {
      return "file " + path + " is in bucket " + bucketOfGroup + "; allowed: 0 to " + (ofGroup - 1);
    }
    if (areEqual() && named.mark.isEmpty()) {
      return "";
    }
    int bucket = number(named.digits);
    boolean isRight = !areEqual() && !named.mark.isEmpty() && bucket >= 0 && named.digits.equals(fiveDigits(bucket))
        && bucket < ofTable && place(bucket) == bucketOfGroup;
    return isRight ? "" : "file " + path + " has no name of a table with " + ofTable + " buckets in a group with " + ofGroup;
  }

  /** -1 for more than any table has. */
  private static int number(String digits) {
    return digits.length() > MOST_DIGITS ? -1 : Integer.parseInt(digits);
  }

  /** Like {@code %05d}, which would take as long as all other work on a file. */
  private static String fiveDigits(int bucket) {
    String digits = String.valueOf(bucket);
    return "00000".substring(Math.min(digits.length(), DIGITS)) + digits;
  }

  @Override
  public String toString() {
    return areEqual() ? String.valueOf(ofTable) : ofTable + " (" + ofGroup + " of the group)";
  }

  /** What a name has: the table's bucket, and before it the group's; empty = the same. */
  private record Named(String digits, String mark) {
    String placed() {
      return mark.isEmpty() ? digits : mark;
    }

    static Named of(String path) {
      String name = path.substring(path.lastIndexOf('/') + 1);
      Matcher matcher = BUCKET_IN_FILE_NAME.matcher(name);
      if (!matcher.matches()) {
        return null;
      }
      int end = matcher.start(1) - 1;
      int start = end - DIGITS;
      boolean isMarked = start >= MARK.length() && name.startsWith(MARK, start - MARK.length())
          && name.substring(start, end).chars().allMatch(digit -> digit >= '0' && digit <= '9');
      return new Named(matcher.group(1), isMarked ? name.substring(start, end) : "");
    }
  }
}
