package dev.colocation.spark.catalog;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;

/** One spelling per Spark SQL type, as in {@code model/spark_types.py}: types of a group and of files are compared after it. */
public final class TypeNames {
  private static final Pattern NESTED = Pattern.compile("(array|map|struct)<.+>");
  private static final Pattern CHARACTERS = Pattern.compile("(varchar|char|character)\\(\\d+\\)");
  private static final Pattern DECIMAL_WITHOUT_SCALE = Pattern.compile("decimal\\((\\d+)\\)");
  private static final Map<String, String> ALIASES = Map.of(
      "byte", "tinyint", "short", "smallint", "integer", "int", "long", "bigint", "real", "float", "dec", "decimal",
      "numeric", "decimal", "timestamp_ltz", "timestamp");

  private static final List<String> SIMPLE = List.of(
      "bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "interval", "smallint", "string",
      "timestamp", "timestamp_ntz", "tinyint", "variant", "void");
  private static final Pattern DECIMAL = Pattern.compile("decimal\\(\\d+,\\d+\\)");

  /** What columns may be, for messages. */
  static final String ALLOWED = String.join(", ", SIMPLE) + ", decimal(p,s), varchar(n), char(n), array<…>, map<…>, struct<…>";

  private TypeNames() {}

  /** Whether a column may be of this type. */
  static boolean isAllowed(String name) {
    String spelt = canonical(name);
    return SIMPLE.contains(spelt) || DECIMAL.matcher(spelt).matches() || NESTED.matcher(spelt).matches();
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
