package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.Names;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import dev.colocation.spark.write.FileSender.SentFile;
import dev.colocation.spark.write.Transaction;
import dev.colocation.spark.write.WriteTarget;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The table of CREATE TABLE AS SELECT, REPLACE TABLE and their like. A new table exists, empty, while the query runs, since its
 * uid names the folder of its files; it is dropped when the query fails. An existing table keeps its definition and rows until
 * all files are written; a failure undoes the changes.
 */
final class StagedColocationTable extends ColocationTable implements StagedTable, WriteTarget.Staging {
  private static final Logger LOG = LoggerFactory.getLogger(StagedColocationTable.class);

  private final TableWriter writer;
  private final List<String> namesInStatement;
  private final Optional<Replacement> replacement;
  private Transaction transaction;
  private List<SentFile> sent = List.of();
  private Optional<CommitKey> key = Optional.empty();

  /**
   * How a table is replaced.
   *
   * @param before the present object
   * @param patch the fields of its spec that change
   */
  record Replacement(JsonNode before, ObjectNode patch) {}

  StagedColocationTable(
      LoadedTable table, FileIndexes indexes, Changing changing, TableWriter writer, Column[] columns,
      Optional<Replacement> replacement) {
    super(table, indexes, changing);
    this.writer = writer;
    this.namesInStatement = Arrays.stream(columns).map(column -> Names.lowerCase(column.name())).toList();
    this.replacement = replacement;
  }

  /** Columns in the order of the query, whose rows Spark passes by position. */
  @Override
  public Column[] columns() {
    Column[] columns = super.columns();
    Arrays.sort(columns, Comparator.comparing(column -> namesInStatement.indexOf(Names.lowerCase(column.name()))));
    return columns;
  }

  @Override
  public WriteTarget target() {
    return target(Optional.of(this));
  }

  @Override
  public void take(Transaction begun, List<SentFile> files, Optional<CommitKey> known) {
    transaction = begun;
    sent = files;
    key = known;
  }

  @Override
  public void commitStagedChanges() {
    if (replacement.isPresent()) {
      replace(replacement.get());
    } else if (!sent.isEmpty()) {
      commit(transaction, Mode.APPEND);
    }
  }

  /** A repeated statement changes nothing: later rows stay, and its own were not computed. */
  private void replace(Replacement change) {
    if (key.flatMap(known -> target().begin().committed(known)).isPresent()) {
      LOG.info("{} was replaced by the same statement before; nothing is changed", name());
      return;
    }
    ColocatedTable object = loaded().object();
    TableWriter.Changed changed = writer.replace(object.namespace(), object.name(), current -> {
      requireUnchanged(change.before(), current);
      return change.patch();
    });
    // A changed definition is another layout: the change begins once more, on the rows that are to be replaced.
    Transaction.orUndo(() -> {
      Transaction current = transaction == null || !change.patch().isEmpty() ? target().begin() : transaction;
      if (!current.table().layout().equals(layout())) {
        throw changedByOthers();
      }
      commit(current.startedOn(target().snapshotId(), target().manifestSha256()), Mode.OVERWRITE);
    }, () -> writer.undo(object.namespace(), object.name(), changed));
  }

  private void requireUnchanged(JsonNode before, JsonNode current) {
    if (!current.path("metadata").path("uid").equals(before.path("metadata").path("uid"))
        || !current.path("spec").equals(before.path("spec"))) {
      throw changedByOthers();
    }
  }

  private RuntimeException changedByOthers() {
    return new ColocationException(name() + " was changed by someone else meanwhile; nothing was replaced, start again")
        .unchecked();
  }

  private void commit(Transaction begun, Mode mode) {
    List<DataFile> files = sent.stream().map(SentFile::file).toList();
    begun.commit(name(), new NewFiles(mode, files, begun.destination().madeFor()), sent, key);
  }

  /** None. Spark 4.3 has no default for it, Spark 4.0 no such method. */
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }

  @Override
  public void abortStagedChanges() {
    if (replacement.isEmpty()) {
      ColocatedTable object = loaded().object();
      writer.delete(object.namespace(), object.name(), object.uid());
    }
  }
}
