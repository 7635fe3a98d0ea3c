package dev.colocation.spark.catalog;

import dev.colocation.spark.plan.Replacing;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Replaces a catalog's table by a bucketed relation over its files when a query is analyzed, so that Spark plans joins of these
 * tables as joins of its own bucketed tables. Targets of writes stay the catalog's tables.
 */
public final class ReadAsFiles extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(ReadAsFiles.class);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      if (plan instanceof WithCTE with) {
        List<LogicalPlan> parts = new ArrayList<>();
        CollectionConverters.asJava(with.children()).forEach(part -> parts.add(replaced(part)));
        return with.withNewChildren(FilesRelation.sequence(parts));
      }
      return replaced(plan);
    } catch (LinkageError error) {
      // A fork of Spark with other classes: queries that have nothing to do with us must go on.
      LOG.warn("this Spark's plans are not understood; tables of a ColocationCatalog cannot be read", error);
      return plan;
    }
  }

  private static LogicalPlan replaced(LogicalPlan plan) {
    if (plan instanceof DeleteFromTable delete && CatalogStatements.target(delete.table()) != null) {
      return delete.withNewChildren(FilesRelation.sequence(List.of(withoutLengths(delete, delete.table()))));
    }
    if (plan instanceof UpdateTable update && CatalogStatements.target(update.table()) != null) {
      return update.withNewChildren(FilesRelation.sequence(List.of(withoutLengths(update, update.table()))));
    }
    if (plan instanceof MergeIntoTable merge && CatalogStatements.target(merge.targetTable()) != null) {
      return merge.withNewChildren(FilesRelation.sequence(List.of(
          withoutLengths(merge, merge.targetTable()), merge.sourceTable().resolveOperatorsUp(new Replacement()))));
    }
    return plan.resolveOperatorsUp(new Replacement()).resolveExpressions(
        Replacing.each(SubqueryExpression.class, ReadAsFiles::read));
  }

  /**
   * A table whose rows change is none that is read: Spark would pad the values of its CHAR columns by a projection, which it then
   * takes for no table. What conditions compare them with is padded by the lengths that their columns had when they were resolved.
   */
  private static LogicalPlan withoutLengths(LogicalPlan statement, LogicalPlan target) {
    boolean isResolved = CollectionConverters.asJava(statement.expressions()).stream().allMatch(Expression::resolved);
    return isResolved ? target.transformUp(
        Replacing.each(DataSourceV2Relation.class, relation -> relation.mapExpressions(ReadAsFiles::withoutLength))) : target;
  }

  private static Expression withoutLength(Expression expression) {
    return expression instanceof AttributeReference column ? CharVarcharUtils.cleanAttrMetadata(column) : expression;
  }

  private static final class Replacement extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return node instanceof DataSourceV2Relation relation && relation.table() instanceof ColocationTable
          || node instanceof StreamingRelationV2 stream && stream.table() instanceof ColocationTable;
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      if (node instanceof StreamingRelationV2) {
        return node.mapExpressions(ReadAsFiles::plainText);
      }
      DataSourceV2Relation relation = (DataSourceV2Relation) node;
      ColocationTable table = (ColocationTable) relation.table();
      OptionsOfReads.take(table.name(), relation.options());
      return table.files(relation);
    }
  }

  /**
   * Tables in the plans of subqueries. Spark analyzes those that a statement has; but from a {@code MERGE} into another format's
   * table it makes one of its own, which chooses the files of that table in which rows may match.
   */
  private static Expression read(SubqueryExpression subquery) {
    LogicalPlan read = subquery.plan().resolveOperatorsUp(new Replacement());
    return read == subquery.plan() ? subquery : subquery.withNewPlan(read);
  }

  /** Texts with a length are texts in plans, as Spark has it for tables that are no streams; the length is in the metadata. */
  private static Expression plainText(Expression expression) {
    if (!(expression instanceof AttributeReference column) || !CharVarcharUtils.hasCharVarchar(column.dataType())) {
      return expression;
    }
    StructType declared = new StructType().add(column.name(), column.dataType(), column.nullable(), column.metadata());
    StructField plain = CharVarcharUtils.replaceCharVarcharWithStringInSchema(declared).apply(0);
    return new AttributeReference(
        column.name(), plain.dataType(), column.nullable(), plain.metadata(), column.exprId(), column.qualifier());
  }

  /**
   * Replaces a {@link TableStream} by a bucketed relation over the files of a micro-batch, which are read, and joined without a
   * shuffle, like a table's.
   */
  public static final class StreamAsFiles extends Rule<LogicalPlan> {
    private static final Logger LOG = LoggerFactory.getLogger(StreamAsFiles.class);

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      try {
        return plan.transformUp(new Replacement());
      } catch (LinkageError error) {
        LOG.warn("this Spark's plans are not understood; tables of a ColocationCatalog cannot be read as streams", error);
        return plan;
      }
    }

    private static final class Replacement extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
      private static final long serialVersionUID = 1L;

      @Override
      public boolean isDefinedAt(LogicalPlan node) {
        return node instanceof StreamingDataSourceV2ScanRelation scan && scan.stream() instanceof TableStream
            && scan.startOffset().isDefined() && scan.endOffset().isDefined();
      }

      @Override
      public LogicalPlan apply(LogicalPlan node) {
        StreamingDataSourceV2ScanRelation scan = (StreamingDataSourceV2ScanRelation) node;
        return ((TableStream) scan.stream()).rows(
            scan.startOffset().get(), scan.endOffset().get(), CollectionConverters.asJava(scan.output()));
      }
    }
  }
}
