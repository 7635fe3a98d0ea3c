package dev.colocation.spark.cluster;

import dev.colocation.spark.fs.Manifest;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** Canonical names of Spark SQL types, as in {@code model/spark_types.py}; types of groups and files are compared by them. */
public final class TypeNames {
  private static final Pattern BLANKS = Pattern.compile("\\s+");
  private static final Pattern NESTED = Pattern.compile("(array|map|struct) ?<.*\\S.*>", Pattern.DOTALL);
  private static final Pattern CHARACTERS = Pattern.compile("(varchar|char|character) ?\\( ?(\\d+) ?\\)");
  private static final Pattern DECIMAL =
      Pattern.compile("(?:decimal|dec|numeric)(?: ?\\( ?0*(\\d+) ?(?:, ?0*(\\d+) ?)?\\))?");
  private static final int MAX_PRECISION = 38;
  private static final int MAX_LENGTH_DIGITS = 9;
  private static final Map<String, String> ALIASES = Map.of(
      "byte", "tinyint", "short", "smallint", "integer", "int", "long", "bigint", "real", "float", "timestamp_ltz", "timestamp");

  public static final List<String> SIMPLE = List.of(
      "bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "interval", "smallint", "string",
      "timestamp", "timestamp_ntz", "tinyint", "variant", "void");

  private static final Pattern INTERVAL = Pattern.compile(
      "interval (year( to month)?|month|day( to (hour|minute|second))?|hour( to (minute|second))?|minute( to second)?|second)");
  private static final Pattern COLLATED = Pattern.compile("string collate (\\w+)", Pattern.CASE_INSENSITIVE);

  /** A comment of a field in a struct. */
  private static final Pattern COMMENT =
      Pattern.compile("\\s+comment\\s+'(?:[^'\\\\]|\\\\.)*'", Pattern.CASE_INSENSITIVE | Pattern.DOTALL);

  /** Types that Spark does not write into Parquet. */
  private static final Set<String> NOT_IN_FILES = Set.of("interval", "void");

  /** The allowed types, for messages. */
  public static final String ALLOWED = SIMPLE.stream().filter(name -> !NOT_IN_FILES.contains(name)).collect(Collectors.joining(", "))
      + ", decimal(p,s), varchar(n), char(n), string collate c, interval year to month, interval day to second, array<…>, "
      + "map<…>, struct<…>";

  private TypeNames() {}

  /** Whether columns of a spec may have this type. */
  public static boolean isKnown(String name) {
    return spelling(name).isPresent();
  }

  /** Whether rows of this type can be written. */
  public static boolean isAllowed(String name) {
   return isKnown(name) && !NOT_IN_FILES.contains(canonical(name));
  }

  /**
   * The canonical name: {@code LONG} is bigint; varchar(n), char(n) and string are string, since Spark hashes them alike. A text
   * that is no type stays as it is.
   */
  public static String canonical(String name) {
    return spelling(name).orElseGet(() -> spaced(name));
  }

  /** Empty for what is no type of Spark SQL. Blanks and digits are those of ASCII, as Spark's parser has them. */
  private static Optional<String> spelling(String name) {
    String spaced = spaced(name);
    if (NESTED.matcher(spaced).matches()) {
      return Optional.of(trimmed(name));
    }
    Matcher collated = COLLATED.matcher(trimmed(name));
    if (collated.matches()) {
      return Optional.of("string collate " + collated.group(1));
    }
    if (CHARACTERS.matcher(spaced).matches()) {
      return Optional.of("string");
    }
    Matcher decimal = DECIMAL.matcher(spaced);
    if (decimal.matches()) {
      return decimal(decimal.group(1), decimal.group(2));
    }
    String simple = ALIASES.getOrDefault(spaced, spaced);
    return SIMPLE.contains(simple) || INTERVAL.matcher(spaced).matches() ? Optional.of(simple) : Optional.empty();
  }

  /** @param precision digits without leading zeros; null = not given, as {@code scale} */
  private static Optional<String> decimal(String precision, String scale) {
    if (precision == null) {
      return Optional.of("decimal(10,0)");
    }
    int digits = number(precision);
    int behindPoint = scale == null ? 0 : number(scale);
    boolean isKnown = digits >= 1 && digits <= MAX_PRECISION && behindPoint <= digits;
    return isKnown ? Optional.of("decimal(" + digits + "," + behindPoint + ")") : Optional.empty();
  }

  private static int number(String digits) {
    return digits.length() > MAX_LENGTH_DIGITS ? Integer.MAX_VALUE : Integer.parseInt(digits);
  }

  private static String spaced(String name) {
    return BLANKS.matcher(trimmed(name)).replaceAll(" ").toLowerCase(Locale.ROOT);
  }

  private static String trimmed(String name) {
    return name.replaceAll("^\\s+|\\s+$", "");
  }

  /** n of char(n); empty for other types. */
  public static OptionalInt charLength(String name) {
    Matcher sized = CHARACTERS.matcher(spaced(name));
    boolean isChar = sized.matches() && !sized.group(1).equals("varchar") && sized.group(2).length() <= MAX_LENGTH_DIGITS;
    return isChar ? OptionalInt.of(Integer.parseInt(sized.group(2))) : OptionalInt.empty();
  }

  /** n of a CHAR(n) column; empty for other types, and for columns that hold CHAR within arrays, maps and structs. */
  public static OptionalInt charLength(Manifest.Column column) {
    return charLength(column.type());
  }

  /** n of each CHAR(n) column, by its name in files. */
  public static Map<String, Integer> charLengths(List<Manifest.Column> columns) {
    Map<String, Integer> lengths = new TreeMap<>();
    columns.forEach(column -> charLength(column).ifPresent(length -> lengths.put(column.storedName(), length)));
    return lengths;
  }

  /** Whether two names are of one type. */
  public static boolean areEqual(String one, String other) {
    return simple(one).equals(simple(other));
  }

  /** Comments of fields make no difference to files. */
  private static String simple(String name) {
    return COMMENT.matcher(canonical(name)).replaceAll("").replaceAll("\\s+", "").toLowerCase(Locale.ROOT);
  }
}
