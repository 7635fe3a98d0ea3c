package dev.colocation.spark.plan;

import java.io.Serializable;
import java.lang.reflect.Constructor;
import java.util.Arrays;
import java.util.Comparator;
import java.util.function.Supplier;
import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Makes Spark's collections for rows of windows, which spill as those of Spark's own operator do.
 *
 * @param inMemory how many rows are kept as they are
 * @param mostBytes how many bytes are kept in memory; Spark 4.0 counts none
 * @param mostRows how many rows are
 */
record WaitingRows(int inMemory, long mostBytes, int mostRows) implements Supplier<ExternalAppendOnlyUnsafeRowArray>, Serializable {
  static WaitingRows of(SQLConf conf) {
    long mostBytes = countsBytes() ? conf.windowExecBufferSpillSizeThreshold() : Long.MAX_VALUE;
    return new WaitingRows(conf.windowExecBufferInMemoryThreshold(), mostBytes, conf.windowExecBufferSpillThreshold());
  }

  /** The constructor with the fewest parameters, which takes the others from the task. */
  private static Constructor<?> constructor() {
    return Arrays.stream(ExternalAppendOnlyUnsafeRowArray.class.getConstructors())
        .min(Comparator.comparingInt(Constructor::getParameterCount)).orElseThrow();
  }

  private static boolean countsBytes() {
    return constructor().getParameterCount() == 4;
  }

  @Override
  public ExternalAppendOnlyUnsafeRowArray get() {
    try {
      return (ExternalAppendOnlyUnsafeRowArray) (countsBytes() ? constructor().newInstance(inMemory, mostBytes, mostRows, mostBytes)
          : constructor().newInstance(inMemory, mostRows));
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("this Spark has another collection for the rows of windows", error);
    }
  }
}
