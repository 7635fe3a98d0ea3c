package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.FilesRelation.ChosenFiles;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.RowCounts;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.explain.ExplainedRowChange;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.ColocPath;
import dev.colocation.spark.write.Change;
import dev.colocation.spark.write.DistributeRows;
import dev.colocation.spark.write.FileReplacement;
import dev.colocation.spark.write.RowChange;
import dev.colocation.spark.write.RowChange.ReadTablets;
import dev.colocation.spark.write.Tablet;
import dev.colocation.spark.write.Transaction;
import dev.colocation.spark.write.WriteOptions;
import dev.colocation.spark.write.WriteResult;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.storage.StorageLevel;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Runs a statement that changes rows: finds the files in which rows change, then replaces these files by new ones in one commit.
 * Other files stay. All queries read the snapshot with which the statement was analyzed.
 */
final class RowChangeRun {
  private final SparkSession session;
  private final RowChange.Kind kind;
  private final ColocationTable target;
  private final LoadedTable table;
  private final List<AttributeReference> columns;
  private final RowStatement statement;

  /** What the statement did. */
  record Counts(RowCounts rows, long replacedFiles, long snapshotId) {}

  RowChangeRun(SparkSession given, RowChange.Kind kind, DataSourceV2Relation relation, RowStatement statement) {
    session = ReplacingWrite.newSession(given);
    this.kind = kind;
    target = (ColocationTable) relation.table();
    table = target.loaded();
    columns = withLengths(CollectionConverters.asJava(relation.output()));
    this.statement = statement.atOneTime(relation);
  }

  /** With the lengths of texts, which Spark pads where files do not. */
  private List<AttributeReference> withLengths(List<AttributeReference> output) {
    StructType schema = CharVarcharUtils.replaceCharVarcharWithStringInSchema(target.schema());
    List<AttributeReference> columns = new ArrayList<>();
    for (int place = 0; place < output.size(); place++) {
      columns.add(output.get(place).withMetadata(schema.apply(place).metadata()));
    }
    return columns;
  }

  Counts run() {
    table.requireReadable();
    return SourceAttempts.run(kind.label() + " of " + table.name(), this::attempt);
  }

  private Counts attempt(StorageLevel level) {
    Optional<CommitKey> key = WriteOptions.keyOfSession();
    Transaction transaction = target.target().begin();
    Optional<Transaction.CommitResult> before = key.flatMap(transaction::committed);
    if (before.isPresent()) {
      return new Counts(RowCounts.NONE, 0, before.get().snapshotId());
    }
    List<Expression> keys = keysOfSource();
    if (statement.source().isEmpty()) {
      return run(transaction, key, statement,
          new ReadTabletsOf(table.layout(), columns, buckets()).condition(statement.matched().get(0).condition()));
    }
    try (SourceOnce source = SourceOnce.of(session, statement.source().get(), keys, buckets(), level)) {
      return source.reading(() -> run(transaction, key, statement.withSource(source.plan()), read(source, keys)));
    }
  }

  /** The statement's queries, as if rows of all files changed. Nothing is run, and no source is read. */
  ExplainedRowChange explain() {
    table.requireReadable();
    // Adaptive execution takes sorts away only while it runs.
    session.sessionState().conf().setConfString("spark.sql.adaptive.enabled", "false");
    List<ExplainedRowChange.Query> found = new ArrayList<>();
    List<Expression> keys = keysOfSource();
    RowChangeReasons reasons = new RowChangeReasons(
        table, statement, keyColumns(), !keys.isEmpty(), session.sessionState().conf());
    RowStatement given = statement;
    Optional<SourceOnce.Computed> computed =
        statement.source().flatMap(source -> SourceOnce.planned(session, source, keys, target.plannedBuckets(), group()));
    if (computed.isPresent()) {
      found.add(ExplainedRowChange.query("source", computed.get().plan(), reasons.ofSource(computed.get().reason())));
      given = statement.withSource(computed.get().rows());
    }
    RowChangeQueries queries = new RowChangeQueries(table.layout(), columns, given);
    ChosenFiles files = relation(committed(target.target().begin()));
    if (changesRows(given)) {
      found.add(ExplainedRowChange.query("rows that change", planned(queries.changed(files)), reasons.ofChanged()));
      found.add(ExplainedRowChange.query("rows that stay", written(queries.staying(files)), reasons.ofStaying()));
      queries.moving(files).ifPresent(moving ->
          found.add(ExplainedRowChange.query("rows that move", written(moving), reasons.ofMoving())));
    }
    if (!given.notMatched().isEmpty()) {
      found.add(ExplainedRowChange.query("rows that are inserted", written(queries.inserted(files.plan())), reasons.ofInserted()));
    }
    return new ExplainedRowChange(found);
  }

  private String group() {
    return table.group().map(found -> found.object().key().toString()).orElse("");
  }

  private SparkPlan written(LogicalPlan rows) {
    return planned(DistributeRows.ofRowChange(rows, target));
  }

  private SparkPlan planned(LogicalPlan query) {
    return Dataset.ofRows(session, query).queryExecution().executedPlan();
  }

  private long snapshotId() {
    return table.snapshot().map(Snapshot::id).orElse(0L);
  }

  private int buckets() {
    return target.plannedBuckets();
  }

  // Which files

  /** What the source has in the place of the target's bucket key; empty when the condition does not compare all of it. */
  private List<Expression> keysOfSource() {
    List<Expression> keys = new ArrayList<>();
    for (AttributeReference column : keyColumns()) {
      Optional<Expression> other = statement.source().isEmpty() ? Optional.empty()
          : RowChangeQueries.conjuncts(statement.on()).flatMap(conjunct -> comparedWith(conjunct, column).stream()).findFirst();
      if (other.isEmpty()) {
        return List.of();
      }
      keys.add(other.get());
    }
    return keys;
  }

  private List<AttributeReference> keyColumns() {
    return table.layout().bucketedBy().stream().map(
        name -> columns.stream().filter(one -> one.name().equalsIgnoreCase(name)).findFirst().orElseThrow()).toList();
  }

  private Optional<Expression> comparedWith(Expression conjunct, AttributeReference column) {
    if (!(conjunct instanceof EqualTo equal)) {
      return Optional.empty();
    }
    return Stream.of(List.of(equal.left(), equal.right()), List.of(equal.right(), equal.left()))
        .filter(sides -> sides.get(0).semanticEquals(column) && isOfSource(sides.get(1))).map(sides -> sides.get(1)).findFirst();
  }

  private boolean isOfSource(Expression expression) {
    return !expression.references().isEmpty() && expression.references().subsetOf(statement.source().orElseThrow().outputSet());
  }

  private ReadTablets read(SourceOnce source, List<Expression> keys) {
    if (!statement.notMatchedBySource().isEmpty()) {
      return ReadTablets.ALL;
    }
    ReadTabletsOf tablets = new ReadTabletsOf(table.layout(), columns, buckets());
    return source.isKept() && !keys.isEmpty()
        ? tablets.keys(statement.on(), few(source.plan(), keys)) : tablets.condition(statement.on());
  }

  /** The keys of the source, where they are few. */
  private Optional<List<List<Object>>> few(LogicalPlan source, List<Expression> keys) {
    List<NamedExpression> values = keys.stream().<NamedExpression>map(key -> FilesRelation.named(key, "key")).toList();
    return ReadTabletsOf.few(Dataset.ofRows(session, new Project(FilesRelation.sequence(values), source)));
  }

  private List<DataFile> committed(Transaction transaction) {
    try {
      return table.snapshot().isEmpty() ? List.of() : transaction.files(table.manifest());
    } catch (IOException error) {
      throw ColocationException.unchecked(error);
    }
  }

  private ChosenFiles relation(List<DataFile> files) {
    return FilesRelation.chosen(table, files.stream().map(table::path).toList(), files.stream().mapToLong(DataFile::rows).sum(),
        files.stream().mapToLong(DataFile::bytes).sum(), columns);
  }

  /** A file's path as {@code _metadata.file_path} has it. */
  private String shownPath(DataFile file) {
    return SparkPath.fromPath(table.path(file)).urlEncoded();
  }

  /** Whether the source or a subquery reads the target: then a commit to any of its tablets may change what the statement does. */
  private boolean readsItself() {
    return Stream.concat(statement.source().stream(), statement.subqueries()).anyMatch(
        plan -> !plan.collectWithSubqueries(new FilesOf(ColocPath.parse(new Path(table.location())).table())).isEmpty());
  }

  private static final class FilesOf extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1L;

    private final String name;

    FilesOf(String name) {
      this.name = name;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return node instanceof LogicalRelation logical && logical.relation() instanceof HadoopFsRelation files && ColocPath.isRootOf(files)
          && ColocPath.parse(files.location().rootPaths().head()).table().equals(name);
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      return node;
    }
  }

  // Find, then replace

  private Counts run(Transaction transaction, Optional<CommitKey> key, RowStatement given, ReadTablets read) {
    RowChangeQueries queries = new RowChangeQueries(table.layout(), columns, given);
    List<DataFile> candidates = committed(transaction).stream().filter(read::contains).toList();
    TouchedFiles touched = changesRows(given) && !candidates.isEmpty()
        ? TouchedFiles.find(Dataset.ofRows(session, queries.changed(relation(candidates))), given.takesOneMatchOnly()) : TouchedFiles.NONE;
    Map<String, DataFile> byPath = new LinkedHashMap<>();
    candidates.forEach(file -> byPath.put(shownPath(file), file));
    List<DataFile> replaced = touched.files().stream().map(byPath::get).toList();
    List<LogicalPlan> branches = branches(queries, given, replaced, candidates);
    if (branches.isEmpty()) {
      return new Counts(RowCounts.NONE, 0, key.isEmpty() ? snapshotId() : committedUnchanged(transaction, key, conflicting(read)));
    }
    return write(branches, new Replaced(replaced, touched, conflicting(read), key,
        !given.notMatched().isEmpty(), branches.size() == 1));
  }

  /** The tablets of which no other commit may have changed a row meanwhile. */
  private ReadTablets conflicting(ReadTablets read) {
    return readsItself() ? ReadTablets.ALL : read;
  }

  /** The snapshot of a statement that changes no row, but has a key: if it is repeated later, it must change none, either. */
  private long committedUnchanged(Transaction transaction, Optional<CommitKey> key, ReadTablets read) {
    Transaction begun = transaction.startedOn(snapshotId(), table.manifest());
    RowChange nothing = new RowChange(kind, Set.of(), List.of(), begun.destination().madeFor(), read, RowCounts.NONE);
    return begun.commit(target.name(), nothing, List.of(), key).snapshotId();
  }

  private static boolean changesRows(RowStatement given) {
    return !given.matched().isEmpty() || !given.notMatchedBySource().isEmpty();
  }

  /** The queries of new files: rows that stay and move, and those that are inserted. */
  private List<LogicalPlan> branches(
      RowChangeQueries queries, RowStatement given, List<DataFile> replaced, List<DataFile> candidates) {
    List<LogicalPlan> branches = new ArrayList<>();
    if (!replaced.isEmpty() && changesRows(given)) {
      ChosenFiles files = relation(replaced);
      branches.add(queries.staying(files));
      queries.moving(files).ifPresent(branches::add);
    }
    if (!given.notMatched().isEmpty()) {
      branches.add(queries.inserted(relation(candidates).plan()));
    }
    return branches;
  }

  private Counts write(List<LogicalPlan> branches, Replaced replaced) {
    try {
      WriteResult done = ReplacingWrite.run(session, ReplacingWrite.together(branches), table, replaced);
      return new Counts(replaced.counts, replaced.files.size(), done.snapshotId());
    } catch (NoSuchTableException gone) {
      throw ColocationException.unchecked(gone);
    }
  }

  /** The files that the statement replaces. */
  private final class Replaced implements FileReplacement {
    private final List<DataFile> files;
    private final TouchedFiles touched;
    private final ReadTablets read;
    private final Optional<CommitKey> key;
    private final boolean inserts;
    private final boolean staysInPlace;
    private RowCounts counts = RowCounts.NONE;

    Replaced(
        List<DataFile> files, TouchedFiles touched, ReadTablets read, Optional<CommitKey> key, boolean inserts, boolean staysInPlace) {
      this.files = files;
      this.touched = touched;
      this.read = read;
      this.key = key;
      this.inserts = inserts;
      this.staysInPlace = staysInPlace && !inserts;
    }

    @Override
    public boolean replacesNothing() {
      return files.isEmpty();
    }

    @Override
    public Change change(List<DataFile> written, Buckets buckets) {
      long left = files.stream().mapToLong(DataFile::rows).sum() - touched.deleted();
      long inserted = written.stream().mapToLong(DataFile::rows).sum() - left;
      if (inserted < 0 || inserted > 0 && !inserts) {
        throw rowsDiffer("the table", left, left + inserted);
      }
      if (staysInPlace) {
        checkTablets(written);
      }
      counts = new RowCounts(inserted, touched.updated(), touched.deleted());
      Set<String> paths = files.stream().map(DataFile::path).collect(Collectors.toSet());
      return new RowChange(kind, paths, written, buckets, read, counts);
    }

    /** No row leaves its bucket and partition, so each has as many as before, without those that are deleted. */
    private void checkTablets(List<DataFile> written) {
      Tablet.difference(files, file -> file.rows() - touched.deleted(shownPath(file)), written).ifPresent(difference -> {
        throw rowsDiffer(difference.tablet().toString(), difference.expected(), difference.found());
      });
    }

    private RuntimeException rowsDiffer(String where, long expected, long found) {
      return new WriteException.RowsDiffer(kind.label() + " of " + table.name() + ": " + expected + " rows should stay in " + where + ", "
          + found + " were written; nothing was changed. A condition or a subquery gave other rows when it was computed again: "
          + "write its result to a table first");
    }

    @Override
    public boolean isCompaction() {
      return false;
    }

    @Override
    public Optional<CommitKey> key() {
      return key;
    }

    @Override
    public Transaction begunOn(Transaction transaction) {
      return transaction.startedOn(snapshotId(), table.manifest());
    }
  }
}
