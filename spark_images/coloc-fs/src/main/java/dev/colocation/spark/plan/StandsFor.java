package dev.colocation.spark.plan;

import org.apache.spark.sql.execution.SparkPlan;

/** An operator in the place of one of Spark's, for the same rows. */
public interface StandsFor {
  /** The same in Spark's own operator. */
  SparkPlan plain();
}
