package dev.colocation.spark.catalog;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Puts a bucketed relation over the files of a micro-batch in the place of a {@link TableStream}: they are read, and joined
 * without a shuffle, as those of a table are.
 */
public final class StreamAsFiles extends Rule<LogicalPlan> {
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
