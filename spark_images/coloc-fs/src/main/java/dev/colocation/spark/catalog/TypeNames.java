package dev.colocation.spark.catalog;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** One spelling per Spark SQL type, as in {@code model/spark_types.py}: types of a group and of files are compared after it. */
public final class TypeNames {
  private static final Pattern NESTED = Pattern.compile("(array|map|struct)<.+>");
  private static final Pattern CHARACTERS = Pattern.compile("(varchar|char|character)\\(\\d+\\)");
  private static final Pattern DECIMAL_WITHOUT_SCALE = Pattern.compile("decimal\\((\\d+)\\)");
  private static final Map<String, String> ALIASES = Map.of(
      "byte", "tinyint", "short", "smallint", "integer", "int", "long", "bigint", "real", "float", "dec", "decimal",
      "numeric", "decimal", "timestamp_ltz", "timestamp");

  static final List<String> SIMPLE = List.of(
      "bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "interval", "smallint", "string",
      "timestamp", "timestamp_ntz", "tinyint", "variant", "void");

  /** Spark writes neither into Parquet. */
  private static final Set<String> NOT_IN_FILES = Set.of("interval", "void");

  private static final Pattern DECIMAL = Pattern.compile("decimal\\((\\d{1,2}),(\\d{1,2})\\)");
  private static final int MOST_DIGITS = 38;

  /** What columns may be, for messages. */
  static final String ALLOWED = SIMPLE.stream().filter(name -> !NOT_IN_FILES.contains(name)).collect(Collectors.joining(", "))
      + ", decimal(p,s), varchar(n), char(n), array<…>, map<…>, struct<…>";

  private TypeNames() {}

  /** Whether this is a type that columns of a spec may name. */
  static boolean isKnown(String name) {
    String spelt = canonical(name);
    return SIMPLE.contains(spelt) || isDecimal(spelt)
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
  static boolean isAllowed(String name) {
    return isKnown(name) && !NOT_IN_FILES.contains(canonical(name));
  }

  /** {@code LONG} is bigint; varchar(n), char(n) and string are string: Spark hashes them alike. */
  static String canonical(String name) {
    String compact = name.replaceAll("\\s+", "").toLowerCase(Locale.ROOT);
    if (NESTED.matcher(compact).matches()) {
      return name.trim();
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

  /** Whether two names are of one type. */
  public static boolean areEqual(String one, String other) {
    return simple(one).equals(simple(other));
  }

  private static String simple(String name) {
    return canonical(name).replaceAll("\\s+", "").toLowerCase(Locale.ROOT);
  }
}
