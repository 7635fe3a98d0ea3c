package dev.colocation.spark;

import java.util.function.UnaryOperator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A fork of Spark, or a version that nobody has tried, whose planner has other classes than ours was compiled against. */
final class UnknownSpark {
  private static final Logger LOG = LoggerFactory.getLogger(UnknownSpark.class);

  private UnknownSpark() {}

  /** The changed plan; the plan itself where this Spark lacks what the change needs. */
  static <P> P orAsPlanned(P plan, UnaryOperator<P> change) {
    try {
      return change.apply(plan);
    } catch (LinkageError error) {
      LOG.warn("this Spark's plans are not understood, so they stay as they are; {}=false ends this message",
          TrustSortedFiles.SWITCH, error);
      return plan;
    }
  }
}
