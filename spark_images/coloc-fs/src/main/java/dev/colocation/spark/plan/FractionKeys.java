package dev.colocation.spark.plan;

import dev.colocation.spark.fs.ColocPath;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Plans scans of tables that are bucketed by FLOAT or DOUBLE columns, so that joins and windows by these need no shuffle: Spark's own
 * plan, each bucketed scan within a {@link FractionKeysExec}, which {@link #planned} takes out again when all shuffles are settled.
 */
public final class FractionKeys extends SparkStrategy {
  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    if (!isOfFractions(plan)) {
      return sequence(List.of());
    }
    return UnknownSpark.orAsPlanned(sequence(List.of()), nothing -> sequence(
        CollectionConverters.asJava(FileSourceStrategy$.MODULE$.apply(plan)).stream()
            .map(scan -> scan.transformUp(new Wrapped())).toList()));
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

  private static boolean isFraction(DataType type) {
    return type instanceof DoubleType || type instanceof FloatType;
  }

  /** The plan as Spark itself would have it. */
  public static SparkPlan planned(SparkPlan plan) {
    return UnknownSpark.orAsPlanned(plan, settled -> settled.transformUp(new Unwrapped()));
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }

  private static final class Wrapped extends AbstractPartialFunction<SparkPlan, SparkPlan> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(SparkPlan node) {
      return node instanceof FileSourceScanExec;
    }

    @Override
    public SparkPlan apply(SparkPlan node) {
      return new FractionKeysExec(node);
    }
  }

  private static final class Unwrapped extends AbstractPartialFunction<SparkPlan, SparkPlan> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(SparkPlan node) {
      return node instanceof FractionKeysExec;
    }

    @Override
    public SparkPlan apply(SparkPlan node) {
      return ((FractionKeysExec) node).scan();
    }
  }
}
