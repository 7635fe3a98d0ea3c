package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.TableProperty;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Options of a DataFrame's write that are properties of the table which it makes, since {@code df.write} has no other word for them. */
final class DefiningOptions {
  private DefiningOptions() {}

  static boolean isOne(String option) {
    return find(option).isPresent();
  }

  private static Optional<TableProperty> find(String option) {
    return TableProperty.of(option).filter(property -> property != TableProperty.COMMENT);
  }

  /** Those of a write, by the names of properties. */
  static Map<String, String> of(CaseInsensitiveStringMap options) {
    Map<String, String> found = new TreeMap<>();
    options.forEach((name, value) -> find(name).ifPresent(property -> found.put(property.key(), value)));
    return found;
  }

  /** Refuses properties that a table does not have, where the write does not define it. */
  static void requireSame(ColocationTable table, Map<String, String> properties) {
    Map<String, String> has = table.properties();
    properties.forEach((name, value) -> {
      TableProperty property = TableProperty.of(name).orElseThrow();
      String now = has.getOrDefault(name, "");
      if (!property.normalized(value).equals(now)) {
        throw OptionsOfWrites.invalid(name + " is " + (now.isEmpty() ? "not set" : now) + " in table " + table.name()
            + ", and the write says '" + value + "': a write into a table does not change it; use ALTER TABLE " + table.name()
            + " SET TBLPROPERTIES ('" + name + "' = '" + value + "'), or leave it out");
      }
    });
  }
}
