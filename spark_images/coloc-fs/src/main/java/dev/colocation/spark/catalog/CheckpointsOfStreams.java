package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import java.io.IOException;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement;
import org.apache.spark.sql.internal.SQLConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.OptionConverters;

/**
 * Makes the folder of a stream's checkpoint before Spark does: Spark's own error is a Java stack of 13,000 characters, which begins
 * with neither the folder nor the option.
 */
public final class CheckpointsOfStreams extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(CheckpointsOfStreams.class);
  private static final String BASE = "spark.sql.streaming.checkpointLocation";
  private static final String OWN_MANAGER = "spark.sql.streaming.checkpointFileManagerClass";

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      if (plan instanceof WriteToStreamStatement stream && !SQLConf.get().contains(OWN_MANAGER)) {
        folder(stream).ifPresent(folder -> make(folder, stream.hadoopConf()));
      }
    } catch (LinkageError error) {
      LOG.warn("this Spark's streams are not understood; errors of checkpoints are as Spark has them", error);
    }
    return plan;
  }

  /** The folder that the stream names, else the session's; empty where there is neither. */
  private static Optional<String> folder(WriteToStreamStatement stream) {
    return OptionConverters.toJava(stream.userSpecifiedCheckpointLocation())
        .or(() -> Optional.ofNullable(SQLConf.get().getConfString(BASE, null)))
        .filter(folder -> !folder.isBlank());
  }

  private static void make(String folder, Configuration configuration) {
    try {
      Path path = new Path(folder);
      if (!path.getFileSystem(configuration).mkdirs(path)) {
        throw new IOException("it cannot be made there");
      }
    } catch (IOException | RuntimeException error) {
      throw new ColocationException("the stream's checkpoint " + folder + " cannot be written: " + reason(error)
          + ". Give the option checkpointLocation a folder that driver and executors may write and that outlives them, such as "
          + "s3a://bucket/folder (docs/how-to/streams.md)", error).unchecked();
    }
  }

  /** The innermost message, which names the cause; the first line of it. */
  private static String reason(Throwable error) {
    String reason = error.toString();
    for (Throwable at = error; at != null; at = at.getCause()) {
      reason = at.getMessage() == null ? reason : at.getMessage();
    }
    return reason.lines().findFirst().orElse("").replaceFirst("\\.$", "");
  }
}
