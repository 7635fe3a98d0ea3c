package dev.colocation.spark.write;

import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.cluster.WriteException.InvalidOption;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.options.KnownOptions;
import dev.colocation.spark.options.KnownOptions.Way;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import dev.colocation.spark.write.FileSender.SentFile;
import dev.colocation.spark.write.FileWriterTask.FilePlan;
import dev.colocation.spark.write.FileWriterTask.TaskFiles;
import dev.colocation.spark.write.Transaction.CommitResult;
import dev.colocation.spark.write.WriteOptions.ReplacedRows;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Collects what a statement writes, as Spark calls it step by step. */
public final class TableWriteBuilder implements SupportsOverwriteV2, SupportsDynamicOverwrite {
  private final WriteTarget target;
  private final LogicalWriteInfo info;
  private final TableLayout analyzed;
  private final Optional<Integer> planned;
  private final Supplier<RuntimeException> notWholePartitions;
  private Mode mode = Mode.APPEND;
  private Optional<List<Map<String, String>>> replaced = Optional.empty();

  /**
   * A write.
   *
   * @param analyzed the layout that the statement was analyzed with
   * @param planned the number of buckets that the statement was analyzed with; empty = it was not known
   * @param notWholePartitions the error for a condition that does not mean whole partitions
   */
  public TableWriteBuilder(
      WriteTarget target, LogicalWriteInfo info, TableLayout analyzed, Optional<Integer> planned,
      Supplier<RuntimeException> notWholePartitions) {
    this.target = target;
    this.info = info;
    this.analyzed = analyzed;
    this.planned = planned;
    this.notWholePartitions = notWholePartitions;
  }

  /** Replaces only the partitions that have new rows where the write's own option asks for it, as Spark's file tables do. */
  @Override
  public WriteBuilder truncate() {
    if (ReplacedRows.of(info.options()).isDynamic().orElse(false)) {
      return overwriteDynamicPartitions();
    }
    mode = Mode.OVERWRITE;
    return this;
  }

  /** Refuses other conditions here, since Spark's own error does not name what is allowed. */
  @Override
  public boolean canOverwrite(Predicate[] conditions) {
    if (new PartitionPredicates(analyzed).partitions(conditions).isEmpty()) {
      throw notWholePartitions.get();
    }
    return true;
  }

  @Override
  public WriteBuilder overwrite(Predicate[] conditions) {
    List<Map<String, String>> partitions = new PartitionPredicates(analyzed).partitions(conditions).orElseThrow();
    if (partitions.contains(Map.<String, String>of())) {
      return truncate();
    }
    mode = Mode.OVERWRITE_MATCHING;
    replaced = Optional.of(partitions);
    return this;
  }

  /** A table without partitions is replaced as a whole. */
  @Override
  public WriteBuilder overwriteDynamicPartitions() {
    mode = analyzed.partitionedBy().isEmpty() ? Mode.OVERWRITE : Mode.OVERWRITE_PARTITIONS;
    return this;
  }

  @Override
  public TableWrite build() {
    return new TableWrite(target, info, planned, mode, replaced);
  }

  /** One write of a table: its tasks' files become one commit, or none. {@link DistributeRows} sorts the rows. */
  static final class TableWrite implements Write {
    private static final Logger LOG = LoggerFactory.getLogger(TableWrite.class);
    private static final int LOAD_ID_DIGITS = 8;

    private final WriteTarget target;
    private final LogicalWriteInfo info;
    private final Mode mode;
    private final Optional<List<Map<String, String>>> replaced;
    private final WriteOptions options;
    private final Transaction transaction;
    private final RowFields fields;

    TableWrite(
        WriteTarget target, LogicalWriteInfo info, Optional<Integer> planned, Mode mode,
        Optional<List<Map<String, String>>> replaced) {
      this.target = target;
      this.info = info;
      this.mode = mode;
      this.replaced = replaced;
      options = WriteOptions.of(info.options());
      Transaction begun = target.begin();
      Optional<Integer> rebucketed = options.replacement().flatMap(FileReplacement::rebucketedTo);
      transaction = rebucketed.map(begun::rebucketing).orElse(begun);
      if (rebucketed.isEmpty()) {
        planned.ifPresent(buckets -> refuseRebucketed(begun, buckets));
      }
      fields = RowFields.match(target.name(), target.layout(transaction), info.schema());
    }

    /** Rows that were sorted by other buckets would come to a file of their own each. */
    private void refuseRebucketed(Transaction begun, int planned) {
      int now = begun.destination().ofTable();
      if (now != planned) {
        throw new WriteException.LoadConflict("table " + target.name() + " had " + planned
            + " buckets when the statement was analyzed, now it has " + now
            + ". Nothing was changed; start it again, and a stream with its checkpoint. If that does not help, the"
            + " cluster's CRDs may be older and not keep the number: see colocation doctor");
      }
    }

    @Override
    public String description() {
      return target.name() + " (" + mode.label() + ")";
    }

    @Override
    public CustomMetric[] supportedCustomMetrics() {
      return WriteMetrics.all();
    }

    @Override
    public BatchWrite toBatch() {
      take(Way.WRITE);
      return new Batch();
    }

    @Override
    public StreamingWrite toStreaming() {
      take(Way.STREAM_WRITE);
      return new Stream();
    }

    /** Refuses options that a rule should have removed, since they were not applied. */
    private void take(Way way) {
      CaseInsensitiveStringMap given = info.options();
      KnownOptions.refusal(way, given.asCaseSensitiveMap().keySet()).ifPresent(refusal -> {
        throw new InvalidOption(refusal);
      });
      if (given.containsKey(ReplacedRows.WHERE)) {
        throw new InvalidOption(ReplacedRows.WHERE + " is done by a rule that this session lacks: start the application with "
            + "spark.sql.extensions=dev.colocation.spark.ColocationExtensions");
      }
      // A stream comes here with each epoch.
      Consumer<String> log = way == Way.WRITE ? LOG::warn : LOG::info;
      KnownOptions.withoutEffect(way, given.keySet()).forEach(line -> log.accept(target.name() + ": " + line));
    }

    private FilePlan files() {
      String loadId = UUID.randomUUID().toString().substring(0, LOAD_ID_DIGITS);
      return new FilePlan(loadId, fields, ParquetFiles.prepare(fields.fileSchema(), options.targetFileSize()), transaction.destination(),
          options.isCompaction());
    }

    /** @param isRecorded whether a write that changes nothing is committed, too */
    private void commit(Transaction begun, WriterCommitMessage[] messages, Optional<CommitKey> key, boolean isRecorded) {
      List<SentFile> sent = TaskFiles.sent(messages);
      if (target.staging().isPresent()) {
        target.staging().get().take(begun, sent, key);
        return;
      }
      WriteResult result = committed(begun, sent, key, isRecorded);
      options.id().ifPresent(result::keep);
    }

    private WriteResult committed(Transaction begun, List<SentFile> sent, Optional<CommitKey> key, boolean isRecorded) {
      boolean replacesNothing = options.replacement().map(FileReplacement::replacesNothing)
          .orElse(mode == Mode.APPEND || mode == Mode.OVERWRITE_PARTITIONS);
      if (sent.isEmpty() && replacesNothing && !isRecorded) {
        LOG.info("{}: no rows, nothing is committed", description());
        long there = begun.table().snapshotId();
        CommitLog.addNothing(target.name(), mode.label(), there);
        return WriteResult.nothing(there);
      }
      List<DataFile> files = sent.stream().map(SentFile::file).toList();
      CommitResult done = begun.commit(target.name(), change(files, begun.destination().madeFor()), sent, key);
      return WriteResult.of(done, files,
          options.isCompaction() ? Compaction.AfterWrite.Outcome.NONE : Compaction.AfterWrite.after(target, begun.table()));
    }

    private Change change(List<DataFile> files, Buckets buckets) {
      return options.replacement().isPresent()
          ? options.replacement().get().change(files, buckets) : new NewFiles(mode, files, buckets, replaced);
    }

    /**
     * An INSERT or the like. An overwrite replaces what the query has read, and nothing that came after it. One with a key is
     * committed also where it has no rows: its repetition might have some.
     */
    private final class Batch implements BatchWrite {
      @Override
      public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
        return files();
      }

      @Override
      public void commit(WriterCommitMessage[] messages) {
        TableWrite.this.commit(begun(), messages, options.key(), options.key().isPresent());
      }

      private Transaction begun() {
        if (options.replacement().isPresent()) {
          return options.replacement().get().begunOn(transaction);
        }
        boolean isOverwrite = mode != Mode.APPEND && target.staging().isEmpty();
        return isOverwrite ? transaction.startedOn(target.snapshotId(), target.manifestSha256()) : transaction;
      }

      /** Files that were sent are in no manifest, and are collected as garbage. */
      @Override
      public void abort(WriterCommitMessage[] messages) {
        LOG.warn("{} was given up; nothing was changed", description());
      }

      @Override
      public String toString() {
        return description();
      }
    }

    /** An epoch of a stream: committed once, however often it is tried. One without rows has none when it is tried again. */
    private final class Stream implements StreamingWrite {
      @Override
      public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
        return files();
      }

      @Override
      public void commit(long epoch, WriterCommitMessage[] messages) {
        TableWrite.this.commit(transaction, messages, Optional.of(new CommitKey(info.queryId(), epoch)), false);
      }

      @Override
      public void abort(long epoch, WriterCommitMessage[] messages) {
        LOG.warn("{}: epoch {} was given up; nothing was changed", description(), epoch);
      }

      @Override
      public String toString() {
        return description();
      }
    }
  }
}
