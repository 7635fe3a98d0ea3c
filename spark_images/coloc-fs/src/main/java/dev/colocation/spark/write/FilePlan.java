package dev.colocation.spark.write;

import java.io.Serializable;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/**
 * All that a write's tasks need; travels to the executors.
 *
 * @param loadId 8 hex digits, new for each write
 * @param isCompaction its rows are committed ones, which stay as they are
 */
record FilePlan(String loadId, RowFields fields, ParquetFiles parquet, Destination destination, boolean isCompaction)
    implements DataWriterFactory, StreamingDataWriterFactory, Serializable {

  @Override
  public DataWriter<InternalRow> createWriter(int partitionId, long taskId) {
    TaskContext context = TaskContext.get();
    return new FileWriterTask(this, context == null ? taskId : context.taskAttemptId());
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partitionId, long taskId, long epochId) {
    return createWriter(partitionId, taskId);
  }
}
