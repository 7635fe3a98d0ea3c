package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.options.KnownOptions;
import dev.colocation.spark.options.KnownOptions.Way;
import dev.colocation.spark.write.WriteOptions.ReplacedRows;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Options of batch writes, {@code df.write.option(…)}, {@code df.writeTo(t).option(…)} and {@code INSERT … WITH (…)}: refuses
 * unsupported ones, and applies those that Spark has a plan for. {@code replaceWhere} becomes the condition of the overwrite.
 * Options that SQL gives with the table's name are moved to the command, which has all others.
 */
public final class OptionsOfWrites extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(OptionsOfWrites.class);
  private static final String OPTIONS = "writeOptions";

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      return plan.resolveOperatorsUp(new Judged());
    } catch (LinkageError error) {
      LOG.warn("this Spark's plans are not understood; options of writes are judged when rows are written", error);
      return plan;
    }
  }

  private static final class Judged extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return node instanceof V2WriteCommand || node instanceof CreateTableAsSelect || node instanceof ReplaceTableAsSelect;
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      boolean isInto = node instanceof AppendData || node instanceof OverwriteByExpression || node instanceof OverwritePartitionsDynamic;
      if (isInto && ((V2WriteCommand) node).table() instanceof DataSourceV2Relation relation
          && relation.table() instanceof ColocationTable table) {
        return into(node, relation, table);
      }
      return node instanceof V2WriteCommand ? node : OptionsOfNewTables.judged(node);
    }
  }

  /** A write into an existing table. */
  private static LogicalPlan into(LogicalPlan command, DataSourceV2Relation relation, ColocationTable table) {
    Map<String, String> all = new HashMap<>(relation.options().asCaseSensitiveMap());
    all.putAll(options(command));
    if (all.isEmpty()) {
      return command;
    }
    CaseInsensitiveStringMap given = new CaseInsensitiveStringMap(all);
    check(given);
    DefiningOptions.requireSame(table, DefiningOptions.of(given));
    Map<String, Object> changed = new HashMap<>();
    condition(command, given).ifPresent(condition -> changed.put("deleteExpr", condition));
    changed.put(OPTIONS, FilesRelation.scalaMap(withoutDone(given)));
    changed.put("table", Fields.with(relation, Map.of("options", CaseInsensitiveStringMap.empty())));
    return Fields.with((LogicalPlan & Product) command, changed);
  }

  /** Refuses unsupported options of writes. */
  static void check(CaseInsensitiveStringMap given) {
    KnownOptions.refusal(Way.WRITE, given.asCaseSensitiveMap().keySet()).ifPresent(refusal -> {
      throw invalid(refusal);
    });
  }

  /** The options of a command, as given. */
  static Map<String, String> options(LogicalPlan command) {
    @SuppressWarnings("unchecked")
    var options = (scala.collection.immutable.Map<String, String>) Fields.get((Product) command, OPTIONS);
    return CollectionConverters.asJava(options);
  }

  /** The options that are left for the write itself. */
  static Map<String, String> withoutDone(CaseInsensitiveStringMap given) {
    Map<String, String> left = new HashMap<>(given.asCaseSensitiveMap());
    left.keySet().removeIf(name -> name.equalsIgnoreCase(ReplacedRows.WHERE) || DefiningOptions.isOne(name));
    return left;
  }

  /** The condition of {@code replaceWhere}; empty when there is none. */
  private static Optional<Expression> condition(LogicalPlan command, CaseInsensitiveStringMap given) {
    ReplacedRows rows = ReplacedRows.of(given);
    if (command instanceof AppendData && rows.where().isPresent()) {
      throw invalid("option " + ReplacedRows.WHERE + " is of overwrites, and this write appends: use mode \"overwrite\", INSERT "
          + "OVERWRITE, or INSERT INTO … REPLACE WHERE");
    }
    boolean isDynamic = rows.isDynamic().orElse(false);
    boolean hasCondition = command instanceof OverwriteByExpression overwrite && !isTrue(overwrite.deleteExpr());
    if (hasCondition && (isDynamic || rows.where().isPresent())) {
      throw givenTwice("by PARTITION (…) or a condition", isDynamic ? "partitionOverwriteMode=dynamic" : ReplacedRows.WHERE);
    }
    boolean isStatic = !rows.isDynamic().orElse(true);
    if (command instanceof OverwritePartitionsDynamic && (isStatic || rows.where().isPresent())) {
      throw givenTwice("by overwritePartitions or spark.sql.sources.partitionOverwriteMode=dynamic",
          isStatic ? "partitionOverwriteMode=static" : ReplacedRows.WHERE);
    }
    return rows.where().map(OptionsOfWrites::parsed);
  }

  private static RuntimeException givenTwice(String one, String option) {
    return invalid("which rows are replaced is given twice: " + one + ", and by option " + option + "; give one of them");
  }

  static boolean isTrue(Expression condition) {
    return condition.equals(Literal$.MODULE$.TrueLiteral());
  }

  static Expression parsed(String condition) {
    try {
      return SparkSession.active().sessionState().sqlParser().parseExpression(condition);
    } catch (ParseException error) {
      throw invalid(ReplacedRows.WHERE + "='" + condition + "'; allowed: a condition of partition columns. " + error.getMessage());
    }
  }

  static RuntimeException invalid(String problem) {
    return new ColocationException("InvalidOption: " + problem).unchecked();
  }

  /** Options of a DataFrame's write that set properties of the table it creates; {@code df.write} has no other way to set them. */
  static final class DefiningOptions {
    private DefiningOptions() {}

    static boolean isOne(String option) {
      return find(option).isPresent();
    }

    private static Optional<TableProperty> find(String option) {
      return TableProperty.of(option).filter(property -> property != TableProperty.COMMENT);
    }

    /** These options of a write, by the names of properties. */
    static Map<String, String> of(CaseInsensitiveStringMap options) {
      Map<String, String> found = new TreeMap<>();
      options.forEach((name, value) -> find(name).ifPresent(property -> found.put(property.key(), value)));
      return found;
    }

    /** Refuses other values than the table's properties have, where the write does not define the table. */
    static void requireSame(ColocationTable table, Map<String, String> properties) {
      Map<String, String> has = table.properties();
      properties.forEach((name, value) -> {
        TableProperty property = TableProperty.of(name).orElseThrow();
        String now = has.getOrDefault(name, "");
        if (!property.normalized(value).equals(now)) {
          throw OptionsOfWrites.invalid(name + " is " + (now.isEmpty() ? "not set" : now) + " in table " + table.name()
              + ", and the write gives '" + value + "': a write into a table does not change it; use ALTER TABLE " + table.name()
              + " SET TBLPROPERTIES ('" + name + "' = '" + value + "'), or leave it out");
        }
      });
    }
  }
}
