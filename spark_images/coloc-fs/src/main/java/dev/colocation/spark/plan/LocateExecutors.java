package dev.colocation.spark.plan;

import dev.colocation.spark.fs.ColocPath;
import dev.colocation.spark.fs.ExecutorHosts;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import scala.jdk.javaapi.CollectionConverters;

/** Before a plan reads colocated tables, the driver knows on which nodes its executors are, with or without our plugin. */
public final class LocateExecutors extends Rule<SparkPlan> {
  private final SparkContext context;

  public LocateExecutors(SparkContext context) {
    this.context = context;
  }

  @Override
  public SparkPlan apply(SparkPlan plan) {
    if (CollectionConverters.asJava(plan.collectLeaves()).stream().anyMatch(LocateExecutors::isOurs)) {
      UnknownSpark.orNothing(() -> ExecutorHosts.OF_THIS_DRIVER.follow(context));
    }
    return plan;
  }

  private static boolean isOurs(SparkPlan leaf) {
    return leaf instanceof FileSourceScanExec scan && ColocPath.isRootOf(scan.relation());
  }
}
