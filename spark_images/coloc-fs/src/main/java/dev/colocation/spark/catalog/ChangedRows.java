package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ClusterView;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.fs.ColocPath;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias$;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation$;
import org.apache.spark.sql.types.StructField;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rows that commits of a table have added, read from the files that they have added. Appends and compactions keep the layout of
 * files, so that of the last commit is that of all.
 */
final class ChangedRows {
  private final TableLoader loader;
  private final ClusterView view;
  private final ColocatedTable object;
  private final Instant now;

  /**
   * Commits of a table.
   *
   * @param now by the API server
   */
  ChangedRows(TableLoader loader, ClusterView view, ColocatedTable object, Instant now) {
    this.loader = loader;
    this.view = view;
    this.object = object;
    this.now = now;
  }

  /** What a commit has added. */
  record Commit(Snapshot snapshot, String location, SortedMap<String, Long> files) {
    List<Path> paths() {
      ColocPath root = ColocPath.parse(new Path(location));
      return files.keySet().stream().map(root::resolve).toList();
    }

    long bytes() {
      return files.values().stream().mapToLong(Long::longValue).sum();
    }
  }

  /**
   * The rows that the commits of a range have added, with the columns that the table has at the range's end: without one, as it
   * is now.
   *
   * @param shown the table as the catalog shows it
   * @throws ColocationException (unchecked) when a commit has removed rows, or the table no longer keeps what it was before
   */
  LogicalPlan in(ChangesRange range, Function<LoadedTable, Table> shown) {
    LoadedTable newest = loader.newest(view, object);
    List<Snapshot> kept =
        object.snapshots().stream().sorted(Comparator.comparingLong(Snapshot::id)).toList();
    List<Snapshot> chosen = range.commits(newest.name(), kept, now);
    LoadedTable table = range.to().isEmpty() || chosen.isEmpty()
        ? newest : loader.older(view, object, chosen.get(chosen.size() - 1));
    requireNames(table);
    return SubqueryAlias$.MODULE$.apply(
        FilesRelation.sequence(List.of(table.catalog(), object.namespace(), object.sqlName())),
        FilesRelation.changed(table, appends(range, kept, chosen), CollectionConverters.asJava(
            DataSourceV2Relation$.MODULE$.create(shown.apply(table), Option.empty(), Option.empty()).output())));
  }

  private List<Commit> appends(ChangesRange range, List<Snapshot> kept, List<Snapshot> chosen) {
    List<Commit> found = new ArrayList<>();
    Optional<Snapshot> predecessor = chosen.isEmpty() ? Optional.empty()
        : kept.stream().filter(one -> one.id() == chosen.get(0).id() - 1).findFirst();
    SortedMap<String, Long> before = predecessor.map(this::files).orElseGet(TreeMap::new);
    for (Snapshot snapshot : chosen) {
      SortedMap<String, Long> files = files(snapshot);
      if (!AppendedFiles.isCompaction(snapshot)) {
        SortedMap<String, Long> added = AppendedFiles.appended(before, files).orElseThrow(() -> noAppend(range, snapshot));
        if (!added.isEmpty()) {
          found.add(new Commit(snapshot, LoadedTable.location(object, Optional.of(snapshot)), added));
        }
      }
      before = files;
    }
    return found;
  }

  private SortedMap<String, Long> files(Snapshot snapshot) {
    return TableLoader.files(view, object, snapshot);
  }

  private RuntimeException noAppend(ChangesRange range, Snapshot snapshot) {
    long id = snapshot.id();
    return new ColocationException("NotAnAppend: table " + object.shownName() + ": " + range + "; snapshot " + id + " ("
        + (snapshot.operation().isEmpty() ? "by an unknown operation" : snapshot.operation())
        + ") removed rows that were there before, and CHANGES gives appended rows only: end with VERSION " + (id - 1)
        + ", and begin again with VERSION " + id + " EXCLUSIVE. What it changed is the difference of VERSION AS OF " + (id - 1)
        + " and VERSION AS OF " + id).unchecked();
  }

  private void requireNames(LoadedTable table) {
    for (StructField added : ChangedFiles.COLUMNS.fields()) {
      if (table.layout().columns().stream().anyMatch(column -> column.name().equalsIgnoreCase(added.name()))) {
        throw new ColocationException("table " + object.shownName() + " has a column " + added.name()
            + ", as CHANGES has one: ALTER TABLE … RENAME COLUMN").unchecked();
      }
    }
  }
}
