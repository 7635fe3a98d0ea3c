package dev.colocation.spark.plan;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.UnaryOperator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A fork of Spark, or an untested version, whose planner has other classes than ours was compiled against. */
public final class UnknownSpark {
  private static final Logger LOG = LoggerFactory.getLogger(UnknownSpark.class);

  private static final AtomicBoolean WARNED = new AtomicBoolean();

  private UnknownSpark() {}

  /** Runs code whose classes or methods this Spark may lack; then nothing happens but a warning. */
  public static void orNothing(Runnable work) {
    try {
      work.run();
    } catch (LinkageError error) {
      warn(error);
    }
  }

  /** Warns once, as every query would repeat it. */
  private static void warn(LinkageError error) {
    if (WARNED.compareAndSet(false, true)) {
      LOG.warn("this Spark is not one of those that are known; plans that are not understood stay as they are", error);
    }
  }

  /** The changed plan, or the plan itself if this Spark lacks classes or methods that the change needs. */
  static <P> P orAsPlanned(P plan, UnaryOperator<P> change) {
    try {
      return change.apply(plan);
    } catch (LinkageError error) {
      warn(error);
      return plan;
    }
  }
}
