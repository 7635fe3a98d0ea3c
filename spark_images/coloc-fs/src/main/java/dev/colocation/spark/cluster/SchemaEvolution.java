package dev.colocation.spark.cluster;

import dev.colocation.spark.fs.Manifest.Column;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * How the columns of a table with files may change; the same rule as {@code model/schema_check.py}. Pure.
 *
 * <p>Files are read by column name, and a column that a file lacks reads as NULL. So a nullable column can be added; a column
 * can be renamed, if only to another case, when its files' name stays, and its place in the list does not matter. Everything
 * else would change or hide rows.
 */
public final class SchemaEvolution {
  private SchemaEvolution() {}

  /** Why files with the columns {@code stored} do not fit a table with the columns {@code wanted}; empty when they do. */
  public static String refusedChange(List<Column> stored, List<Column> wanted) {
    Map<String, Column> left = new LinkedHashMap<>();
    wanted.forEach(column -> left.put(key(column), column));
    List<String> problems = new ArrayList<>();
    for (Column column : stored) {
      Column successor = left.remove(key(column));
      if (successor == null) {
        problems.add("column " + column.name() + " (" + column.type() + ") exists and is no longer in the spec");
      } else if (!TypeNames.areEqual(successor.type(), column.type())) {
        problems.add("column " + successor.name() + " has type " + column.type() + " and should be " + successor.type());
      } else if (!successor.storedName().equals(column.storedName())) {
        problems.add(
            "column " + successor.name() + " is called " + column.storedName() + " in its files, and storedAs should say so");
      } else if (column.nullable() && !successor.nullable()) {
        problems.add("column " + successor.name() + " may hold NULL and should not");
      }
    }
    left.values().stream().filter(column -> !column.nullable()).forEach(column -> problems.add(
        "column " + column.name() + " (" + column.type() + ") is new and would have to be nullable"));
    return String.join("; ", problems);
  }

  private static String key(Column column) {
    return column.storedName().toLowerCase(Locale.ROOT);
  }
}
