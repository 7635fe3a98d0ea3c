package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.OptionsOfWrites.DefiningOptions;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.write.WriteOptions.ReplacedRows;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.TableSpecBase;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTableAsSelectPlan;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Options of writes that create or replace their table: {@code saveAsTable}, {@code writeTo(t).create()}, {@code replace()} and
 * {@code createOrReplace()}. Properties of the table become part of its definition. Spark takes {@code saveAsTable} with mode
 * overwrite for a replacement of the table; with options that choose fewer rows it becomes an overwrite of these.
 */
final class OptionsOfNewTables {
  private static final Set<TableWritePrivilege> OVERWRITE = Set.of(TableWritePrivilege.INSERT, TableWritePrivilege.DELETE);

  private OptionsOfNewTables() {}

  static LogicalPlan judged(LogicalPlan command) {
    V2CreateTableAsSelectPlan plan = (V2CreateTableAsSelectPlan) command;
    if (!(plan.name() instanceof ResolvedIdentifier name && name.catalog() instanceof ClusterCatalog catalog)) {
      return command;
    }
    CaseInsensitiveStringMap given = new CaseInsensitiveStringMap(OptionsOfWrites.options(command));
    OptionsOfWrites.check(given);
    ReplacedRows rows = ReplacedRows.of(given);
    if (command instanceof CreateTableAsSelect && rows.where().isPresent()) {
      throw OptionsOfWrites.invalid("option " + ReplacedRows.WHERE + " is of overwrites, and this write makes a table: leave it out");
    }
    boolean isNarrow = rows.where().isPresent() || rows.isDynamic().orElse(false);
    Optional<ColocationTable> replaced = command instanceof ReplaceTableAsSelect && (isNarrow || isInDoubt(command, rows))
        ? find(catalog, name) : Optional.empty();
    if (replaced.isPresent() && !isNarrow && !replaced.get().layout().partitionedBy().isEmpty()) {
      throw replacesAll(replaced.get());
    }
    LogicalPlan defined = given.isEmpty() ? command : defined((LogicalPlan & Product) command, given);
    return replaced.isPresent() && isNarrow ? overwrite(defined, replaced.get(), name, rows, given) : defined;
  }

  /** The command with the table's properties in its table specification. */
  private static <T extends LogicalPlan & Product> LogicalPlan defined(T command, CaseInsensitiveStringMap given) {
    TableSpecBase table = spec(command);
    Map<String, String> properties = new HashMap<>(CollectionConverters.asJava(table.properties()));
    DefiningOptions.of(given).forEach((name, value) -> {
      String other = properties.putIfAbsent(name, value);
      if (other != null && !other.equals(value)) {
        throw OptionsOfWrites.invalid("option " + name + "='" + value + "' and property " + name + "='" + other
            + "' contradict each other; give one of them");
      }
    });
    return Fields.with(command, Map.of(
        "tableSpec", Fields.with((Product) table, Map.of("properties", FilesRelation.scalaMap(properties))),
        "writeOptions", FilesRelation.scalaMap(OptionsOfWrites.withoutDone(given))));
  }

  private static Optional<ColocationTable> find(ClusterCatalog catalog, ResolvedIdentifier name) {
    try {
      return catalog.loadTable(name.identifier(), OVERWRITE) instanceof ColocationTable table ? Optional.of(table) : Optional.empty();
    } catch (NoSuchTableException absent) {
      return Optional.empty();
    }
  }

  /**
   * Whether this may be {@code saveAsTable}, in a session whose overwrites replace the partitions that rows are in. A statement
   * in SQL, and {@code writeTo(t).createOrReplace()} without a format, always replace the table.
   */
  private static boolean isInDoubt(LogicalPlan command, ReplacedRows rows) {
    return rows.isDynamic().isEmpty() && command.origin().sqlText().isEmpty() && spec(command).provider().isDefined()
        && SQLConf.get().partitionOverwriteMode().toString().equalsIgnoreCase("dynamic");
  }

  private static TableSpecBase spec(LogicalPlan command) {
    return (TableSpecBase) Fields.get((Product) command, "tableSpec");
  }

  private static RuntimeException replacesAll(ColocationTable table) {
    return OptionsOfWrites.invalid("saveAsTable with mode overwrite replaces all of " + table.name()
        + ", and spark.sql.sources.partitionOverwriteMode of the session is dynamic: for the partitions that the rows are in, give option "
        + "partitionOverwriteMode=dynamic or use insertInto; for the whole table, give option partitionOverwriteMode=static");
  }

  /** An overwrite of some rows, matched by names of columns as in all of these writes. It keeps the table's definition. */
  private static LogicalPlan overwrite(
      LogicalPlan command, ColocationTable table, ResolvedIdentifier name, ReplacedRows rows, CaseInsensitiveStringMap given) {
    requireSameLayout((V2CreateTableAsSelectPlan) command, table);
    requireSameProperties(spec(command), table);
    DataSourceV2Relation relation =
        DataSourceV2Relation.create(table, Option.apply(name.catalog()), Option.apply(name.identifier()));
    Expression condition = rows.where().map(OptionsOfWrites::parsed).orElse(Literal$.MODULE$.TrueLiteral());
    return byName(relation, ((V2CreateTableAsSelectPlan) command).query(), condition,
        FilesRelation.scalaMap(OptionsOfWrites.withoutDone(given)));
  }

  private static void requireSameLayout(V2CreateTableAsSelectPlan command, ColocationTable table) {
    Transform[] layout = CollectionConverters.asJava(command.partitioning()).toArray(Transform[]::new);
    if (layout.length > 0 && !Arrays.equals(layout, table.partitioning())) {
      throw OptionsOfWrites.invalid("a write that replaces some rows of " + table.name() + " keeps its layout, "
          + Arrays.toString(table.partitioning()) + "; given: " + Arrays.toString(layout) + ". Leave partitionBy, bucketBy and sortBy out");
    }
  }

  private static void requireSameProperties(TableSpecBase spec, ColocationTable table) {
    Map<String, String> properties = new HashMap<>(CollectionConverters.asJava(spec.properties()));
    for (String format : CollectionConverters.asJava(spec.provider().toList())) {
      TableDefinition.setProperty(null, "provider", format);
    }
    List<String> unknown = properties.keySet().stream().filter(key -> TableProperty.of(key).isEmpty()).sorted().toList();
    if (!unknown.isEmpty() || spec.location().isDefined()) {
      throw OptionsOfWrites.invalid("a write that replaces some rows of " + table.name() + " keeps its definition; leave out "
          + (unknown.isEmpty() ? "path" : String.join(", ", unknown)));
    }
    DefiningOptions.requireSame(table, properties);
  }

  /** Later versions of Spark have more parameters after these, which are switches and stay off. */
  private static LogicalPlan byName(DataSourceV2Relation relation, Object... rest) {
    for (Method method : OverwriteByExpression.class.getMethods()) {
      if (method.getName().equals("byName")) {
        Object[] values = new Object[method.getParameterCount()];
        Arrays.fill(values, false);
        values[0] = relation;
        System.arraycopy(rest, 0, values, 1, rest.length);
        try {
          return (LogicalPlan) method.invoke(null, values);
        } catch (IllegalAccessException | InvocationTargetException error) {
          throw new ColocationException("this Spark makes another OverwriteByExpression than those known: " + error, error).unchecked();
        }
      }
    }
    throw new ColocationException("this Spark makes no OverwriteByExpression by name").unchecked();
  }
}
