package dev.colocation.spark.write;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.WriteBuilder;

/** What a statement asks for, as Spark tells it step by step. */
public final class TableWriteBuilder implements SupportsOverwriteV2, SupportsDynamicOverwrite {
  private final WriteTarget target;
  private final LogicalWriteInfo info;
  private final TableLayout analyzed;
  private final Supplier<RuntimeException> notWholePartitions;
  private Mode mode = Mode.APPEND;
  private Optional<List<Map<String, String>>> replaced = Optional.empty();

  /**
   * A write.
   *
   * @param analyzed the layout that the statement was analyzed with
   * @param notWholePartitions what users are told of a condition that does not mean whole partitions
   */
  public TableWriteBuilder(
      WriteTarget target, LogicalWriteInfo info, TableLayout analyzed, Supplier<RuntimeException> notWholePartitions) {
    this.target = target;
    this.info = info;
    this.analyzed = analyzed;
    this.notWholePartitions = notWholePartitions;
  }

  /** Of the partitions that the rows are in where the write's own option says so, as Spark's file tables take it. */
  @Override
  public WriteBuilder truncate() {
    if (ReplacedRows.of(info.options()).isDynamic().orElse(false)) {
      return overwriteDynamicPartitions();
    }
    mode = Mode.OVERWRITE;
    return this;
  }

  /** Else refused here: Spark's own words do not say what is allowed. */
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

  /** Without partitions all of the table is the one that the rows are in. */
  @Override
  public WriteBuilder overwriteDynamicPartitions() {
    mode = analyzed.partitionedBy().isEmpty() ? Mode.OVERWRITE : Mode.OVERWRITE_PARTITIONS;
    return this;
  }

  @Override
  public TableWrite build() {
    return new TableWrite(target, info, mode, replaced);
  }
}
