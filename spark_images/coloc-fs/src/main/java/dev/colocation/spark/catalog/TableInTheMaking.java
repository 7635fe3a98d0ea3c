package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.write.Commits;
import dev.colocation.spark.write.DataFile;
import dev.colocation.spark.write.Mode;
import dev.colocation.spark.write.NewFiles;
import dev.colocation.spark.write.SentFile;
import dev.colocation.spark.write.Transaction;
import dev.colocation.spark.write.WriteTarget;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/**
 * The table of CREATE TABLE AS SELECT, REPLACE TABLE and their like. A new one is there, empty, while the query runs, since its uid
 * names the folder of its files; it goes again when the query fails. An existing one keeps its definition and rows until all
 * files are written; what a failure finds changed is changed back.
 */
final class TableInTheMaking extends ColocationTable implements StagedTable, WriteTarget.Staging {
  private final TableWriter writer;
  private final Optional<Replacement> replacement;
  private Transaction transaction;
  private List<SentFile> sent = List.of();

  /**
   * How a table is replaced.
   *
   * @param before the object that is there
   * @param patch the fields of its spec that change
   */
  record Replacement(JsonNode before, ObjectNode patch) {}

  TableInTheMaking(
      LoadedTable table, FileIndexes indexes, Changing changing, TableWriter writer, Optional<Replacement> replacement) {
    super(table, indexes, changing);
    this.writer = writer;
    this.replacement = replacement;
  }

  @Override
  public WriteTarget target() {
    return target(Optional.of(this));
  }

  @Override
  public void take(Transaction begun, List<SentFile> files) {
    transaction = begun;
    sent = files;
  }

  @Override
  public void commitStagedChanges() {
    if (replacement.isPresent()) {
      replace(replacement.get());
    } else if (!sent.isEmpty()) {
      commit(transaction, Mode.APPEND);
    }
  }

  private void replace(Replacement change) {
    TableObject object = loaded().object();
    writer.change(object.namespace(), object.name(), current -> {
      requireUnchanged(change.before(), current);
      return change.patch();
    });
    // A changed definition is another layout: the change begins once more, on the rows that are to be replaced.
    Commits.orUndo(() -> {
      Transaction current = transaction == null || !change.patch().isEmpty() ? target().begin() : transaction;
      commit(current.startedOn(target().snapshotId()), Mode.OVERWRITE);
    }, () -> writer.undo(object.namespace(), object.name(), change.before().path("spec"), change.patch()));
  }

  private void requireUnchanged(JsonNode before, JsonNode current) {
    if (!current.path("metadata").path("uid").equals(before.path("metadata").path("uid"))
        || !current.path("spec").equals(before.path("spec"))) {
      throw new ColocationException(name() + " was changed by someone else meanwhile; nothing was replaced, start again")
          .unchecked();
    }
  }

  private void commit(Transaction begun, Mode mode) {
    List<DataFile> files = sent.stream().map(SentFile::file).toList();
    int buckets = begun.destination().buckets().size();
    Commits.commit(name(), begun, new NewFiles(mode, files, buckets), sent, Optional.empty());
  }

  /** None. Spark 4.3 has no default for it, Spark 4.0 no such method. */
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }

  @Override
  public void abortStagedChanges() {
    if (replacement.isEmpty()) {
      TableObject object = loaded().object();
      writer.delete(object.namespace(), object.name(), object.uid());
    }
  }
}
