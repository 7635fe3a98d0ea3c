package dev.colocation.spark.write;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** Metrics of a write in Spark's UI, summed over its tasks. The driver creates these classes by name. */
public final class WriteMetrics {
  private WriteMetrics() {}

  static CustomMetric[] all() {
    return new CustomMetric[] {new Files(), new Bytes(), new Missing(), new Seconds()};
  }

  static CustomTaskMetric[] values(long files, long bytes, long missing, long seconds) {
    return new CustomTaskMetric[] {
      new Value(Files.NAME, files), new Value(Bytes.NAME, bytes), new Value(Missing.NAME, missing),
      new Value(Seconds.NAME, seconds)
    };
  }

  private record Value(String name, long value) implements CustomTaskMetric {}

  /** Files, each counted once. */
  public static final class Files extends CustomSumMetric {
    static final String NAME = "colocationFiles";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "files written";
    }
  }

  /** Bytes of one replica. */
  public static final class Bytes extends CustomSumMetric {
    static final String NAME = "colocationBytes";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "bytes written, of one replica";
    }
  }

  /** Copies that the operator has yet to make. */
  public static final class Missing extends CustomSumMetric {
    static final String NAME = "colocationReplicasMissing";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "replicas missing";
    }
  }

  /** Time spent sending, which is not part of the time spent writing. */
  public static final class Seconds extends CustomSumMetric {
    static final String NAME = "colocationSendSeconds";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "seconds sending";
    }
  }
}
