package dev.colocation.spark.plan;

import dev.colocation.spark.fs.ColocPath;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.PartitioningCollection;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Plans scans of tables that are bucketed by FLOAT or DOUBLE columns, so that joins and windows by these need no shuffle: Spark's
 * own plan, each bucketed scan within a {@link FractionKeysExec}.
 */
public final class FractionKeys extends SparkStrategy {
  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    if (!isOfFractions(plan)) {
      return sequence(List.of());
    }
    return UnknownSpark.orAsPlanned(sequence(List.of()), nothing -> sequence(
        CollectionConverters.asJava(CommonBuckets.planned(plan)).stream()
            .map(scan -> scan.transformUp(Replacing.each(FileSourceScanExec.class, FractionKeysExec::new))).toList()));
  }

  private static boolean isOfFractions(LogicalPlan plan) {
    if (plan instanceof Project project) {
      return isOfFractions(project.child());
    }
    if (plan instanceof Filter filter) {
      return isOfFractions(filter.child());
    }
    return plan instanceof LogicalRelation logical && logical.relation() instanceof HadoopFsRelation relation
        && ColocPath.isRootOf(relation) && relation.bucketSpec().isDefined()
        && CollectionConverters.asJava(relation.bucketSpec().get().bucketColumnNames()).stream()
            .anyMatch(name -> isFraction(relation.dataSchema().apply(name).dataType()));
  }

  /** Whether a type has two zeros, which are equal but not of the same bytes. */
  public static boolean isFraction(DataType type) {
    return type instanceof DoubleType || type instanceof FloatType;
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }

  /**
   * A bucketed scan by FLOAT or DOUBLE columns. Joins and windows compare such columns as {@code normalizenanandzero(k)}; Spark does
   * not know that rows which are distributed by {@code k} are distributed by that, too. They are: Spark's hash takes -0.0 for 0.0, and
   * every NaN for the same one ({@code tests/spark/test_fraction_keys.py}).
   */
  private static final class FractionKeysExec extends WhilePlannedExec {
    private static final long serialVersionUID = 1L;

    FractionKeysExec(SparkPlan scan) {
      super(scan);
    }

    @Override
    FractionKeysExec of(SparkPlan other) {
      return new FractionKeysExec(other);
    }

    /** The scan's distribution of rows, in both forms. */
    @Override
    public Partitioning outputPartitioning() {
      if (!(plain().outputPartitioning() instanceof HashPartitioning known)) {
        return plain().outputPartitioning();
      }
      List<Expression> keys = CollectionConverters.asJava(known.expressions());
      HashPartitioning normalized = new HashPartitioning(
          sequence(keys.stream().map(NormalizeFloatingNumbers$.MODULE$::normalize).toList()), known.numPartitions());
      return new PartitioningCollection(sequence(List.of(known, normalized)));
    }
  }
}
