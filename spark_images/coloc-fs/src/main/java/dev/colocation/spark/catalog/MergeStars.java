package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Names;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.InsertStarAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UpdateStarAction;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.internal.SQLConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/**
 * {@code UPDATE SET *} and {@code INSERT *} of a MERGE, of which Spark drops the source's columns that the target lacks: they are
 * refused, or added to the target where the statement has {@code WITH SCHEMA EVOLUTION}. Marks such statements before Spark
 * replaces the stars.
 */
public final class MergeStars extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(MergeStars.class);
  private static final TreeNodeTag<Boolean> STAR = new TreeNodeTag<>("colocation.star");

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      if (plan instanceof WithCTE with && with.plan() instanceof MergeIntoTable merge) {
        List<LogicalPlan> children = new ArrayList<>(CollectionConverters.asJava(with.children()));
        children.set(children.size() - 1, marked(merge, new WithCTE(merge.sourceTable(), with.cteDefs())));
        return with.withNewChildren(FilesRelation.sequence(children));
      }
      return plan instanceof MergeIntoTable merge ? marked(merge, merge.sourceTable()) : plan;
    } catch (LinkageError error) {
      LOG.warn("this Spark's plans are not understood; a MERGE with stars is as Spark has it", error);
      return plan;
    }
  }

  private static LogicalPlan marked(MergeIntoTable merge, LogicalPlan source) {
    UnresolvedRelation target = target(merge.targetTable());
    if (target == null || !ColocationNames.isOurs(target)) {
      return merge;
    }
    boolean hasStar = Stream.of(merge.matchedActions(), merge.notMatchedActions())
        .flatMap(actions -> CollectionConverters.asJava(actions).stream())
        .anyMatch(action -> action instanceof UpdateStarAction || action instanceof InsertStarAction);
    if (merge.withSchemaEvolution() && hasStar) {
      addColumns(ColocationNames.inCatalog(target), source);
    }
    MergeIntoTable marked = merge.withSchemaEvolution() ? Fields.with(merge, Map.of("withSchemaEvolution", false)) : merge;
    if (hasStar) {
      marked.setTagValue(STAR, true);
    }
    return marked;
  }

  private static UnresolvedRelation target(LogicalPlan plan) {
    return plan instanceof SubqueryAlias alias ? target(alias.child()) : plan instanceof UnresolvedRelation relation ? relation : null;
  }

  private static void addColumns(ColocationNames.InCatalog name, LogicalPlan source) {
    LogicalPlan analyzed = Dataset.ofRows(SparkSession.active(), source).queryExecution().analyzed();
    try {
      ClusterCatalog catalog = name.catalog();
      Identifier identifier = catalog.identifier(name.parts());
      if (catalog.loadTable(identifier) instanceof ColocationTable table) {
        TableChange[] added = missing(table, analyzed).stream()
            .map(column -> TableChange.addColumn(new String[] {column.name()}, column.dataType())).toArray(TableChange[]::new);
        if (added.length > 0) {
          catalog.alterTable(identifier, added);
        }
      }
    } catch (NoSuchTableException absent) {
      throw ColocationException.unchecked(absent);
    }
  }

  /** The source's columns that a table lacks. */
  private static List<Attribute> missing(ColocationTable table, LogicalPlan source) {
    List<String> names = Arrays.stream(table.schema().fieldNames()).toList();
    return CollectionConverters.asJava(source.output()).stream()
        .filter(column -> names.stream().noneMatch(name -> (boolean) SQLConf.get().resolver().apply(name, column.name()))).toList();
  }

  /** Refuses a resolved statement with a star whose target lacks columns of the source. */
  static void refuseMissing(MergeIntoTable merge, ColocationTable table) {
    List<Attribute> missing = merge.getTagValue(STAR).isDefined() ? missing(table, merge.sourceTable()) : List.of();
    if (!missing.isEmpty()) {
      Attribute first = missing.get(0);
      throw new ColocationException(table.name() + " lacks columns of the source of MERGE, whose values * would drop: "
          + String.join(", ", missing.stream().map(Attribute::name).toList()) + ". Add them with MERGE WITH SCHEMA EVOLUTION INTO …, or ALTER TABLE "
          + table.name() + " ADD COLUMN " + Names.inBackQuotes(first.name()) + " " + first.dataType().sql()
          + "; or leave them out of the source; or name the columns: UPDATE SET <column> = …").unchecked();
    }
  }
}
