package dev.colocation.spark.cluster;

import dev.colocation.spark.fs.Manifest;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** One spelling per Spark SQL type, as in {@code model/spark_types.py}: types of a group and of files are compared after it. */
public final class TypeNames {
  private static final Pattern NESTED = Pattern.compile("(array|map|struct)<.+>");
  private static final Pattern CHARACTERS = Pattern.compile("(varchar|char|character)\\(\\d+\\)");
  private static final Pattern CHAR = Pattern.compile("(?:char|character)\\((\\d{1,9})\\)");
  private static final Pattern DECIMAL_WITHOUT_SCALE = Pattern.compile("decimal\\((\\d+)\\)");
  private static final Map<String, String> ALIASES = Map.of(
      "byte", "tinyint", "short", "smallint", "integer", "int", "long", "bigint", "real", "float", "dec", "decimal",
      "numeric", "decimal", "timestamp_ltz", "timestamp");

  public static final List<String> SIMPLE = List.of(
      "bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "interval", "smallint", "string",
      "timestamp", "timestamp_ntz", "tinyint", "variant", "void");

  private static final Pattern INTERVAL = Pattern.compile(
      "interval (year( to month)?|month|day( to (hour|minute|second))?|hour( to (minute|second))?|minute( to second)?|second)");
  private static final Pattern COLLATED = Pattern.compile("string collate (\\w+)", Pattern.CASE_INSENSITIVE);

  /** Of a field within a struct. */
  private static final Pattern COMMENT =
      Pattern.compile("\\s+comment\\s+'(?:[^'\\\\]|\\\\.)*'", Pattern.CASE_INSENSITIVE | Pattern.DOTALL);

  /** Spark writes neither into Parquet. */
  private static final Set<String> NOT_IN_FILES = Set.of("interval", "void");

  private static final Pattern DECIMAL = Pattern.compile("decimal\\((\\d{1,2}),(\\d{1,2})\\)");
  private static final int MOST_DIGITS = 38;

  /** What columns may be, for messages. */
  public static final String ALLOWED = SIMPLE.stream().filter(name -> !NOT_IN_FILES.contains(name)).collect(Collectors.joining(", "))
      + ", decimal(p,s), varchar(n), char(n), string collate c, interval year to month, interval day to second, array<…>, "
      + "map<…>, struct<…>";

  private TypeNames() {}

  /** Whether this is a type that columns of a spec may name. */
  public static boolean isKnown(String name) {
    String spelt = canonical(name);
    return SIMPLE.contains(spelt) || isDecimal(spelt) || INTERVAL.matcher(spelt).matches() || COLLATED.matcher(spelt).matches()
        || NESTED.matcher(spelt.replaceAll("\\s+", "").toLowerCase(Locale.ROOT)).matches();
  }

  private static boolean isDecimal(String spelt) {
    Matcher decimal = DECIMAL.matcher(spelt);
    if (!decimal.matches()) {
      return false;
    }
    int precision = Integer.parseInt(decimal.group(1));
    return precision >= 1 && precision <= MOST_DIGITS && Integer.parseInt(decimal.group(2)) <= precision;
  }

  /** Whether rows of this type can be written. */
  public static boolean isAllowed(String name) {
   return isKnown(name) && !NOT_IN_FILES.contains(canonical(name));
  }

  /** {@code LONG} is bigint; varchar(n), char(n) and string are string: Spark hashes them alike. */
  public static String canonical(String name) {
    String compact = name.replaceAll("\\s+", "").toLowerCase(Locale.ROOT);
    if (NESTED.matcher(compact).matches()) {
      return name.trim();
    }
    String spaced = name.trim().replaceAll("\\s+", " ").toLowerCase(Locale.ROOT);
    if (INTERVAL.matcher(spaced).matches()) {
      return spaced;
    }
    Matcher collated = COLLATED.matcher(name.trim());
    if (collated.matches()) {
      return "string collate " + collated.group(1);
    }
    if (CHARACTERS.matcher(compact).matches()) {
      return "string";
    }
    int bracket = compact.indexOf('(');
    String base = bracket < 0 ? compact : compact.substring(0, bracket);
    String arguments = bracket < 0 ? "" : compact.substring(bracket);
    String spelt = ALIASES.getOrDefault(base, base) + arguments;
    return spelt.equals("decimal") ? "decimal(10,0)" : DECIMAL_WITHOUT_SCALE.matcher(spelt).replaceAll("decimal($1,0)");
  }

  /** n of char(n); empty for other types. */
  public static OptionalInt charLength(String name) {
    Matcher matcher = CHAR.matcher(name.replaceAll("\\s+", "").toLowerCase(Locale.ROOT));
    return matcher.matches() ? OptionalInt.of(Integer.parseInt(matcher.group(1))) : OptionalInt.empty();
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
