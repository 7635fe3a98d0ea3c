package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.colocation.spark.cluster.ClusterView;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.cluster.TypeNames;
import dev.colocation.spark.cluster.Types;
import dev.colocation.spark.explain.KnownTable;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.CredentialFile;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.fs.Settings;
import dev.colocation.spark.plan.CommonBuckets;
import dev.colocation.spark.plan.FractionKeys;
import dev.colocation.spark.plan.PaddedInFiles;
import dev.colocation.spark.write.ReadSnapshot;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.internal.SQLConf;

/**
 * One snapshot of a table as one query reads it: the layout of its files, where they are stored, and whether Spark sees its buckets.
 *
 * @param name in SQL: {@code <catalog>.<namespace>.<table>}
 * @param snapshot empty before the first load
 * @param placing the group whose map places the rows; empty while it is unknown
 * @param group empty when the table is in no group
 * @param unreadable why its rows cannot be read; the table then has the spec's columns and layout, and can be described and altered
 * @param isPinned whether the query asked for this snapshot; else for the newest one
 */
record LoadedTable(
    String name,
    ColocatedTable object,
    Optional<Snapshot> snapshot,
    Shape shape,
    Optional<ClusterView.PlacingGroup> placing,
    Optional<ClusterView.PlacingGroup> group,
    ReadDecision decision,
    Map<String, String> fileSystem,
    Optional<Exception> unreadable,
    boolean isPinned) {

  /**
   * Options by which Spark would skip unreadable files: {@code spark.sql.files.ignoreCorruptFiles} is for files with a single
   * copy. Rows would be missing although another replica has them.
   */
  private static final List<String> NEVER_SKIP = List.of("ignoreCorruptFiles", "ignoreMissingFiles");

  /**
   * Option by which Parquet compares a condition with the dictionaries of files, and leaves out those without a value that fulfils it:
   * for it -0.0 is less than 0.0, for Spark they are equal. Statistics of files are right: they hold both zeros where they hold one.
   */
  private static final String DICTIONARY_FILTER = "parquet.filter.dictionary.enabled";

  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * The layout of files, with the columns as queries see them.
   *
   * @param padded CHAR columns, by their names in files, all values of which are padded to this length
   */
  record Shape(TableLayout layout, Buckets buckets, Map<String, Integer> padded) {
    /** Why rows may not be in the buckets of their keys' values; empty when they are. */
    String unpaddedKeys() {
      Map<String, Integer> unpadded = TypeNames.charLengths(layout.columns());
      unpadded.entrySet().removeAll(padded.entrySet());
      return layout.columns().stream()
          .filter(column -> unpadded.containsKey(column.storedName())
              && layout.bucketedBy().stream().anyMatch(column.name()::equalsIgnoreCase))
          .map(column -> "column " + column.name() + " of the bucket key is " + column.type() + ", and its files hold values that are "
              + "not padded to that length; write all rows again: INSERT OVERWRITE the table with a query of itself")
          .findFirst().orElse("");
    }
  }

  TableLayout layout() {
    return shape.layout();
  }

  /** The same rows, under another definition. */
  LoadedTable redefined(ColocatedTable definition) {
    Shape defined = new Shape(definition.layout(), shape.buckets(), shape.padded());
    return new LoadedTable(name, definition, snapshot, defined, placing, group, decision, fileSystem, unreadable, isPinned);
  }

  /** The same table, with files of other snapshots that have other buckets, or another order of rows. */
  LoadedTable unbucketed(String why) {
    return new LoadedTable(
        name, object, snapshot, shape, placing, group, ReadDecision.ordinary(why), fileSystem, unreadable, isPinned);
  }

  /** The same table, with files of other snapshots in which fewer columns are padded. */
  LoadedTable padded(Map<String, Integer> columns) {
    Shape fewer = new Shape(shape.layout(), shape.buckets(), columns);
    return new LoadedTable(name, object, snapshot, fewer, placing, group, decision, fileSystem, unreadable, isPinned);
  }

  /** The same table, pinned to this snapshot. */
  LoadedTable pinned() {
    return new LoadedTable(name, object, snapshot, shape, placing, group, decision, fileSystem, unreadable, true);
  }

  /**
   * Refuses to go on when the rows cannot be read.
   *
   * @throws ColocationException (unchecked) or another error, as thrown when the table was loaded
   */
  void requireReadable() {
    if (unreadable.isPresent()) {
      throw ColocationException.unchecked(unreadable.get());
    }
  }

  /** Whether the files have the layout of the present definition. */
  boolean isAsDefined() {
    return layout().equals(object.layout());
  }

  /** The catalog that the query named. */
  String catalog() {
    return name.substring(0, name.length() - object.shownName().length() - 1);
  }

  /** The folder of the snapshot's files. It names the manifest, so later commits do not change it. */
  String location() {
    return location(object, snapshot);
  }

  /** The digest of the snapshot's manifest, or {@link Manifest#NOTHING}. */
  String manifest() {
    return manifest(snapshot);
  }

  /** Where a file of the snapshot is read. */
  Path path(DataFile file) {
    return new Path(location() + file.path().substring(file.path().indexOf('/')));
  }

  static String location(ColocatedTable object, Optional<Snapshot> snapshot) {
    return "coloc://" + object.namespace() + "/" + object.directory() + "/" + manifest(snapshot) + "/data";
  }

  private static String manifest(Optional<Snapshot> snapshot) {
    return snapshot.map(Snapshot::manifestSha256).orElse(Manifest.NOTHING);
  }

  /** Options of the relation: everything that drivers and executors need to find the files; the session has none of it. */
  Map<String, String> options() {
    KnownTable known = new KnownTable(name, group.map(found -> found.object().key().toString()).orElse(""), decision.bucketed(),
        decision.reason() + decision.note(), layout().bucketedBy());
    Map<String, String> options = new TreeMap<>(fileSystem);
    options.put(KnownTable.OPTION, known.asOption());
    options.put(ReadSnapshot.OPTION, read().asOption());
    group.ifPresent(found -> options.put(CommonBuckets.GROUP, found.object().key().toString()));
    options.put(PaddedInFiles.OPTION, JSON.valueToTree(shape.padded()).toString());
    NEVER_SKIP.forEach(option -> options.put(option, "false"));
    if (layout().columns().stream().anyMatch(column -> Types.parse(column.type()).existsRecursively(FractionKeys::isFraction))) {
      options.put(DICTIONARY_FILTER, "false");
    }
    return options;
  }

  private ReadSnapshot read() {
    long id = snapshot.map(Snapshot::id).orElse(0L);
    return new ReadSnapshot(object.folder(), id, manifest(), isPinned);
  }

  /**
   * The options of the {@code coloc://} file system for a table.
   *
   * @param placing the group whose nodes hold the files; empty while it is unknown
   * @throws ColocationException (unchecked) when the session names another token or CA than the application's
   */
  static Map<String, String> fileSystem(ColocatedTable object, Optional<ClusterView.PlacingGroup> placing, SQLConf conf) {
    Map<String, String> options = new TreeMap<>();
    options.put("fs.coloc.impl", Settings.FILE_SYSTEM_CLASS);
    options.put("fs.coloc.impl.disable.cache", "true");
    options.put("parquet.page.verify-checksum.enabled", "true");
    setting(conf, "spark.colocation.dataRoot", Settings.DATA_ROOT, options);
    for (CredentialFile file : CredentialFile.values()) {
      options.put(file.option(), credential(file, conf));
    }
    setting(conf, "spark.colocation.retrySeconds", Settings.READ_DEADLINE, options);
    placing.ifPresent(group -> {
      String reference = object.group().referenceFrom(object.namespace());
      options.put(Settings.TABLE_PREFIX + object.namespace() + "." + object.directory(), reference);
      options.put(Settings.GROUP_PREFIX + object.namespace() + "." + reference, group.asSetting(reference));
    });
    return options;
  }

  private static String credential(CredentialFile file, SQLConf conf) {
    String refusal = file.refusal(conf.getConfString(file.key(), ""));
    if (!refusal.isEmpty()) {
      throw new ColocationException(refusal).unchecked();
    }
    return file.ofApplication();
  }

  private static void setting(SQLConf conf, String key, String option, Map<String, String> options) {
    String value = conf.getConfString(key, "");
    if (!value.isEmpty()) {
      options.put(option, value);
    }
  }
}
