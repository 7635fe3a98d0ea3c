package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.cluster.WriteException.ReplicasMissing;
import dev.colocation.spark.cluster.WriteException.SchemaMismatch;
import dev.colocation.spark.plan.InPlaceRowsExec;
import dev.colocation.spark.plan.InPlaceRowsExec.Rows;
import dev.colocation.spark.plan.MergeMemory;
import dev.colocation.spark.write.FileSender.SendQueue;
import dev.colocation.spark.write.FileSender.SentFile;
import dev.colocation.spark.write.ParquetFiles.LocalFile;
import dev.colocation.spark.write.RowFields.Field;
import dev.colocation.spark.write.RowFields.RowOrder;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalInt;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Length;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A task of a write. Rows come sorted by partition and bucket, so one file is open at a time; of rows that are written where they
 * are ({@link InPlaceRowsExec}), partitions may alternate, and a file of each is open, within a bound of memory. Files of failed,
 * killed or speculative attempts have names of their own, are in no manifest, and are collected as garbage.
 */
final class FileWriterTask implements DataWriter<InternalRow> {
  private static final int ROWS_BETWEEN_REPORTS = 1 << 14;
  /** How often a file's size is looked at. */
  private static final int ROWS_BETWEEN_SIZES = 1 << 10;

  private final FilePlan plan;
  private final long attempt;
  private final SendQueue sendQueue;
  private final UnsafeProjection keyOf;
  private final UnsafeProjection dataOf;
  private final List<Field> required;
  private final List<Field> padded;
  private final UnsafeProjection lengthsOf;
  private final OpenFiles<InternalRow, OpenFile> opened = new OpenFiles<>(one -> one.file.heldBytes(), this::end);

  private Rows known;
  private long mostBytes;
  private InternalRow key;
  private OptionalInt lastBucket = OptionalInt.empty();
  private OpenFile open;
  private int files;
  private long rows;
  private long rowBytes;
  private long bytes;
  private WriteException refusal;

  FileWriterTask(FilePlan plan, long attempt) {
    this.plan = plan;
    this.attempt = attempt;
    RowFields fields = plan.fields();
    sendQueue = new SendQueue(plan.destination());
    Expression bucket = DistributeRows.bucket(
        fields.bucketKeys().stream().map(FileWriterTask::reference).toList(), plan.destination().ofTable());
    keyOf = projection(Stream.concat(Stream.of(bucket), fields.partitions().stream().map(FileWriterTask::reference)));
    dataOf = projection(fields.inFiles().stream().map(FileWriterTask::reference));
    required = fields.inFiles().stream().filter(field -> !field.nullable()).toList();
    padded = plan.isCompaction() ? List.of() : Stream.concat(fields.inFiles().stream(), fields.partitions().stream())
        .filter(field -> field.padded() > 0).toList();
    lengthsOf = projection(padded.stream().map(field -> new Length(reference(field))));
  }

  private static Expression reference(Field field) {
    return new BoundReference(field.ordinal(), field.type(), true);
  }

  private static UnsafeProjection projection(Stream<Expression> expressions) {
    return UnsafeProjection.create(CollectionConverters.asScala(expressions.toList()).toSeq());
  }

  /** A file of one bucket and partition. */
  private static final class OpenFile {
    private final int bucket;
    private final Map<String, String> partition;
    private final RowFile file;
    private final RowOrder order;
    private long rows;

    OpenFile(int bucket, Map<String, String> partition, FilePlan plan) {
      this.bucket = bucket;
      this.partition = partition;
      file = new RowFile(plan);
      order = new RowOrder(plan.fields().sortKeys());
    }

    /** Whether it has as many bytes as a file should have. */
    boolean isFull(long fileBytes) {
      return rows > 0 && rows % ROWS_BETWEEN_SIZES == 0 && file.bytes() >= fileBytes;
    }
  }

  @Override
  public void write(InternalRow row) throws IOException {
    if (refusal != null) {
      return;
    }
    InternalRow rowKey = keyOf.apply(row);
    if (!rowKey.equals(key) || endsFull(row)) {
      turnTo(rowKey.copy());
    }
    for (Field field : required) {
      if (row.isNullAt(field.ordinal())) {
        refuseNull(field.name());
      }
    }
    if (!padded.isEmpty()) {
      checkLengths(lengthsOf.apply(row));
    }
    if (refusal == null && !open.order.takes(row)) {
      refuseOrder();
    }
    if (refusal == null) {
      UnsafeRow data = dataOf.apply(row);
      open.file.write(data);
      open.rows++;
      rows++;
      rowBytes += data.getSizeInBytes();
      if (rows % ROWS_BETWEEN_REPORTS == 0) {
        report(bytes + opened.sum(one -> one.file.bytes()));
      }
    }
  }

  /** Updates the metrics that Spark shows while the task runs. */
  private void report(long written) {
    TaskContext context = TaskContext.get();
    if (context != null) {
      context.taskMetrics().outputMetrics().setBytesWritten(written);
      context.taskMetrics().outputMetrics().setRecordsWritten(rows);
    }
  }

  /** Turns to another file, also between NULL and empty text, which are one partition: each file's rows are sorted separately. */
  private void turnTo(InternalRow newKey) throws IOException {
    if (known == null) {
      known = Rows.ofTask();
      mostBytes = plan.openBytes();
    }
    int bucket = newKey.getInt(0);
    if (known != Rows.SORTED && lastBucket.orElse(bucket) != bucket) {
      refusal = new WriteException("rows of bucket " + bucket + " come with those of bucket " + lastBucket.getAsInt()
          + ", although the plan has them apart. SET spark.colocation.writeInPlace = false, and report this defect");
      return;
    }
    key = newKey;
    lastBucket = OptionalInt.of(bucket);
    Map<String, String> partition = partition(newKey);
    if (known != Rows.OF_BUCKET_INTERLEAVED) {
      opened.endAll();
    } else {
      opened.weigh(rowBytes, mostBytes);
    }
    open = opened.get(newKey);
    if (refusal == null && open == null) {
      open = new OpenFile(bucket, partition, plan);
      opened.add(newKey, open);
    }
  }

  /** Closes a file that is large enough, unless the next row could be in its key range. */
  private boolean endsFull(InternalRow next) throws IOException {
    boolean ends = open.isFull(plan.parquet().fileBytes()) && open.order.endsBefore(next);
    if (ends) {
      opened.end(key);
    }
    return ends;
  }

  private Map<String, String> partition(InternalRow newKey) {
    Map<String, String> partition = new LinkedHashMap<>();
    int place = 1;
    for (Field field : plan.fields().partitions()) {
      String value = PartitionText.of(newKey.get(place++, field.type()), field.type());
      if (value == null && !field.nullable()) {
        refuseNull(field.name());
      }
      String refused = PartitionText.refusal(field.storedName(), value);
      if (!refused.isEmpty()) {
        refusal = new SchemaMismatch(refused);
      }
      partition.put(field.storedName(), value);
    }
    return partition;
  }

  private void refuseNull(String column) {
    refusal = new SchemaMismatch("column " + column + " holds NULL (or an empty partition value); the table has nullable: "
        + "false. Filter those rows, or declare the column nullable");
  }

  /** Refuses CHAR values that are not padded, on which readers rely. */
  private void checkLengths(InternalRow lengths) {
    for (int place = 0; place < padded.size(); place++) {
      Field field = padded.get(place);
      if (!lengths.isNullAt(place) && lengths.getInt(place) != field.padded()) {
        refuseWithoutRule("column " + field.name() + " holds a text of " + lengths.getInt(place) + " characters, not padded to "
            + field.padded() + ": this session lacks the rule that pads it");
      }
    }
  }

  private void refuseOrder() {
    refuseWithoutRule("rows come in another order than "
        + plan.fields().sortKeys().stream().map(Field::name).collect(Collectors.joining(", "))
        + ", by which files are sorted: this session lacks the rule that sorts them");
  }

  private void refuseWithoutRule(String what) {
    refusal = new WriteException(what + ". Start the application with "
        + "spark.sql.extensions=dev.colocation.spark.ColocationExtensions, and do not exclude its rules "
        + "(spark.sql.optimizer.excludedRules)");
  }

  /** Closes a file and starts to send it. */
  private void end(OpenFile ended) throws IOException {
    ended.file.close();
    LocalFile content = ended.file.content();
    DataFile described = new DataFile(
        path(ended), plan.destination().madeFor().place(ended.bucket), ended.partition, ended.rows, content.bytes(),
        content.sha256(), ended.order.keys());
    files++;
    bytes += described.bytes();
    try {
      sendQueue.add(described, content);
    } catch (ReplicasMissing missing) {
      refusal = missing;
    }
  }

  /** A file's path; Spark reads the table's bucket from the name. */
  private String path(OpenFile file) {
    String folder = PartitionText.folder(file.partition);
    String name = String.format(Locale.ROOT, "part-%s-%d%s.c%03d.zstd.parquet", plan.loadId(), attempt,
        plan.destination().madeFor().suffix(file.bucket), files);
    return "data/" + (folder.isEmpty() ? "" : folder + "/") + name;
  }

  /** Writes all rows and sends all files, since Spark reads the task's metrics before it commits. */
  @Override
  public void writeAll(Iterator<InternalRow> all) throws IOException {
    while (all.hasNext()) {
      write(all.next());
    }
    finish();
  }

  private List<SentFile> finish() throws IOException {
    if (refusal == null) {
      opened.endAll();
    }
    try {
      return refusal == null ? sendQueue.finish() : List.of();
    } catch (ReplicasMissing missing) {
      refusal = missing;
      return List.of();
    }
  }

  @Override
  public WriterCommitMessage commit() throws IOException {
    List<SentFile> sent = finish();
    abort();
    report(bytes);
    return new TaskFiles(sent, refusal);
  }

  @Override
  public void abort() {
    // The writers are not closed, which would write their buffered rows for nothing.
    opened.abandon(one -> one.file.content().delete());
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return WriteMetrics.values(files, bytes, sendQueue.missingCopies(), sendQueue.seconds());
  }

  @Override
  public void close() {
    sendQueue.close();
  }

  /**
   * Everything that a write's tasks need; sent to the executors.
   *
   * @param loadId 8 hex digits, new for each write
   * @param isCompaction its rows are committed ones, which stay as they are
   */
  record FilePlan(String loadId, RowFields fields, ParquetFiles parquet, Destination destination, boolean isCompaction)
      implements DataWriterFactory, StreamingDataWriterFactory, Serializable {

    /** Bytes that the open files of a task may hold in memory. */
    long openBytes() {
      return MergeMemory.mostBytes(SparkEnv.get().conf());
    }

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

  /**
   * A task's report to the driver: the files that it has sent, or why it gave up. For Spark a task that gives up has succeeded;
   * otherwise Spark would run it again, although the rows stay the same and the sender has tried long enough.
   *
   * @param refusal null when there is none
   */
  record TaskFiles(List<SentFile> sent, WriteException refusal) implements WriterCommitMessage {
    TaskFiles {
      sent = List.copyOf(sent);
    }

    /**
     * The files of all tasks.
     *
     * @throws SchemaMismatch when the rows do not fit the table
     * @throws ReplicasMissing when a majority of a bucket's nodes did not take a file
     */
    static List<SentFile> sent(WriterCommitMessage[] messages) {
      List<SentFile> sent = new ArrayList<>();
      for (WriterCommitMessage message : messages) {
        TaskFiles task = (TaskFiles) message;
        if (task.refusal != null) {
          throw task.refusal;
        }
        sent.addAll(task.sent);
      }
      return sent;
    }
  }
}
