package dev.colocation.spark.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

/** What becomes of plans where Spark is not as it was. */
class UnknownSparkTest {
  /** A class or method of the planner that is another one there leaves the plan as it is. */
  @Test
  void leavesPlansAlone() {
    assertEquals("planned", UnknownSpark.orAsPlanned("planned", plan -> {
      throw new NoSuchMethodError("SortExec.sortOrder()");
    }));
    assertEquals("planned better", UnknownSpark.orAsPlanned("planned", plan -> plan + " better"));
  }

  /** An error of our own is not hidden. */
  @Test
  void hidesNoOtherError() {
    assertThrows(IllegalStateException.class, () -> UnknownSpark.orAsPlanned("planned", plan -> {
      throw new IllegalStateException("a bug");
    }));
  }

  /** An extension that cannot be injected leaves the session without it; an error of our own is not hidden there either. */
  @Test
  void toleratesMissingClasses() {
    UnknownSpark.orNothing(() -> {
      throw new NoSuchMethodError("SparkSessionExtensions.injectPreCBORule");
    });
    assertThrows(IllegalStateException.class, () -> UnknownSpark.orNothing(() -> {
      throw new IllegalStateException("a bug");
    }));
  }
}
