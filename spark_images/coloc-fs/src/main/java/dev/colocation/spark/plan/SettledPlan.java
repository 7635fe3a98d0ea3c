package dev.colocation.spark.plan;

import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SparkPlan;

/** Puts Spark's own operators in the place of those that gave its planner more to know ({@link WhilePlannedExec}). */
public final class SettledPlan extends Rule<SparkPlan> {
  @Override
  public SparkPlan apply(SparkPlan plan) {
    return WhilePlannedExec.settled(plan);
  }
}
