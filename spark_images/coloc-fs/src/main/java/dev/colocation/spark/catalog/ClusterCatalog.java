package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.catalog.ColumnChanges.DroppedColumns;
import dev.colocation.spark.catalog.NewestInStreams.NewestTables;
import dev.colocation.spark.cluster.ClusterView;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.KubernetesApi;
import dev.colocation.spark.cluster.Names;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.stream.Stream;
import org.apache.spark.sql.catalog.Catalog;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The implementation of {@link dev.colocation.spark.ColocationCatalog}. Every query reads from the API server, so it sees all
 * earlier commits; nothing is stored in the session, in Hive, or in the session catalog.
 */
public abstract class ClusterCatalog implements StagingTableCatalog, SupportsNamespaces, ProcedureCatalog {
  /** The class that users name in {@code spark.sql.catalog.<catalog>}; it extends this one. */
  public static final String CONFIGURED_CLASS = "dev.colocation.spark.ColocationCatalog";

  private static final int DEFAULT_ACCEPT_SECONDS = 60;

  private final FileIndexes indexes = new FileIndexes(this::newestTables);
  private final TableLoader.QueryViews views = new TableLoader.QueryViews();
  private String name;
  private String defaultNamespace;
  private KubernetesApi.Access access;
  private int acceptSeconds;
  private TableLoader loader;

  @Override
  public void initialize(String catalog, CaseInsensitiveStringMap options) {
    name = catalog;
    defaultNamespace = options.getOrDefault("namespace", "");
    access = new KubernetesApi.Access(options.getOrDefault("kubeconfig", ""), options.getOrDefault("context", ""));
    acceptSeconds = options.getInt("acceptSeconds", DEFAULT_ACCEPT_SECONDS);
    loader = new TableLoader(catalog);
  }

  /** Connects to the API server when a table is first used, so that a session may configure catalogs that it does not use. */
  private KubernetesApi api() {
    return KubernetesApi.shared(access);
  }

  private ClusterView present() {
    return new ClusterView(api());
  }

  private ClusterView ofQuery() {
    return views.current(this::present);
  }

  @Override
  public String name() {
    return name;
  }

  /** Shown in plans by EXPLAIN and errors. */
  @Override
  public String toString() {
    return name;
  }

  @Override
  public String[] defaultNamespace() {
    String configured = defaultNamespace.isEmpty()
        ? SQLConf.get().getConfString("spark.colocation.namespace", "") : defaultNamespace;
    return configured.isEmpty() ? new String[0] : new String[] {configured};
  }

  // Tables

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    String one = existing(namespace);
    return present().tables(one).stream().map(table -> Identifier.of(namespace, table)).toArray(Identifier[]::new);
  }

  @Override
  public boolean tableExists(Identifier identifier) {
    return object(identifier).isPresent();
  }

  private Optional<ColocatedTable> object(Identifier identifier) {
    return identifier.namespace().length == 1
        ? ofQuery().table(Names.ofSql(identifier.namespace()[0]), Names.ofSql(identifier.name())) : Optional.empty();
  }

  @Override
  public Table loadTable(Identifier identifier) throws NoSuchTableException {
    return load(identifier, loader::newestIfReadable);
  }

  /** Writes follow the table's definition; an overwrite also replaces rows that can no longer be read. */
  @Override
  public Table loadTable(Identifier identifier, Set<TableWritePrivilege> privileges) throws NoSuchTableException {
    if (!privileges.contains(TableWritePrivilege.INSERT)) {
      return loadTable(identifier);
    }
    boolean replaces = privileges.contains(TableWritePrivilege.DELETE);
    return load(identifier, replaces ? ClusterView::replacedTable : ClusterView::table, loader::written);
  }

  @Override
  public Table loadTable(Identifier identifier, String version) throws NoSuchTableException {
    return load(identifier, (view, table) -> loader.older(view, table, table.ofVersion(version)));
  }

  @Override
  public Table loadTable(Identifier identifier, long microseconds) throws NoSuchTableException {
    Instant time = Instant.EPOCH.plus(microseconds, ChronoUnit.MICROS);
    return load(identifier, (view, table) -> loader.older(view, table, table.ofTime(time)));
  }

  /**
   * The rows that commits of a table have changed.
   *
   * @param parts of its name: namespace and table, or the table of the current namespace
   */
  LogicalPlan changes(List<String> parts, ChangesRequest request) throws NoSuchTableException {
    Identifier identifier = identifier(parts);
    if (!(loadTable(identifier) instanceof ColocationTable table)) {
      throw new ColocationException("metadata table " + Names.quoted(name, identifier) + " has no CHANGES").unchecked();
    }
    return new ChangedRows(loader, ofQuery(), table.loaded().object(), api().now())
        .in(request, loaded -> new ColocationTable(loaded, indexes, changing()));
  }

  /** A table's name; the namespace is the current one where it is left out. */
  Identifier identifier(List<String> parts) {
    List<String> full = parts.size() > 1 ? parts : Stream.concat(Arrays.stream(currentNamespace()), parts.stream()).toList();
    int last = full.size() - 1;
    return Identifier.of(full.subList(0, last).toArray(String[]::new), full.get(last));
  }

  private interface Finder {
    Optional<ColocatedTable> table(ClusterView view, String namespace, String name);
  }

  /** {@code <namespace>.<table>}, or {@code <namespace>.<table>.snapshots} and the like. */
  private Table load(Identifier identifier, BiFunction<ClusterView, ColocatedTable, LoadedTable> choose)
      throws NoSuchTableException {
    return load(identifier, ClusterView::table, choose);
  }

  private Table load(Identifier identifier, Finder find, BiFunction<ClusterView, ColocatedTable, LoadedTable> choose)
      throws NoSuchTableException {
    Identifier ofCurrentNamespace = ofCurrentNamespace(identifier);
    Optional<Table> found;
    try {
      found = found(identifier, find, choose);
    } catch (Exception error) {
      if (!KubernetesApi.isForbidden(error)) {
        throw ColocationException.unchecked(error);
      }
      return loadInCurrentNamespace(identifier, find, choose, error);
    }
    return (found.isPresent() ? found : found(ofCurrentNamespace, find, choose))
        .orElseThrow(() -> new NoSuchTableException(identifier));
  }

  /**
   * Of {@code orders.snapshots}: whether {@code orders} is a namespace, accounts with rights in the current one alone may not ask. Of
   * {@code orders.history} the error has both: the metadata tables of {@code orders}, and the right that is missing.
   */
  private Table loadInCurrentNamespace(
      Identifier identifier, Finder find, BiFunction<ClusterView, ColocatedTable, LoadedTable> choose, Exception forbidden) {
    try {
      return found(inCurrentNamespace(identifier), find, choose).orElseThrow(() -> ColocationException.unchecked(forbidden));
    } catch (Exception error) {
      if (KubernetesApi.isForbidden(error)) {
        throw ColocationException.unchecked(forbidden); // which names the table as the statement does
      }
      if (!(error instanceof ColocationException)) {
        throw ColocationException.unchecked(error);
      }
      throw new ColocationException(error.getMessage() + "; or " + forbidden.getMessage(), error).unchecked();
    }
  }

  private Optional<Table> found(Identifier identifier, Finder find, BiFunction<ClusterView, ColocatedTable, LoadedTable> choose) {
    String[] parts = Arrays.copyOf(identifier.namespace(), identifier.namespace().length + 1);
    parts[parts.length - 1] = identifier.name();
    if (parts.length != 2 && parts.length != 3) {
      return Optional.empty();
    }
    ClusterView view = ofQuery();
    Optional<LoadedTable> table = find.table(view, Names.ofSql(parts[0]), Names.ofSql(parts[1]))
        .map(object -> choose.apply(view, object));
    return parts.length == 2
        ? table.<Table>map(loaded -> Pipelines.areAsking()
            ? new Pipelines.PipelineTable(loaded, indexes, changing()) : new ColocationTable(loaded, indexes, changing()))
        : table.<Table>map(loaded -> MetadataTables.find(loaded, Names.lowerCase(parts[2])));
  }

  /** {@code orders.snapshots} after {@code USE <catalog>.shop}; a name of no metadata table stays as it is. */
  private Identifier ofCurrentNamespace(Identifier identifier) {
    return MetadataTables.NAMES.contains(Names.lowerCase(identifier.name()))
        ? inCurrentNamespace(identifier) : Identifier.of(new String[0], identifier.name());
  }

  /** A table that the current namespace may have where a namespace is named; no table's name where there is no such. */
  private Identifier inCurrentNamespace(Identifier identifier) {
    String[] current = currentNamespace();
    if (identifier.namespace().length != 1 || current.length != 1) {
      return Identifier.of(new String[0], identifier.name());
    }
    String[] table = {current[0], identifier.namespace()[0]};
    return Identifier.of(table, identifier.name());
  }

  /** That of {@code USE}, in a view that of the one who made it; empty where it is of another catalog. */
  private String[] currentNamespace() {
    List<String> ofView = CollectionConverters.asJava(AnalysisContext.get().catalogAndNamespace());
    if (!ofView.isEmpty()) {
      return ofView.size() == 2 && ofView.get(0).equals(name) ? new String[] {ofView.get(1)} : new String[0];
    }
    Catalog session = SparkSession.active().catalog();
    // Kubernetes' names need quotes in SQL, and hold none.
    String current = session.currentCatalog().equals(name) ? session.currentDatabase().replace("`", "") : "";
    return current.isEmpty() ? new String[0] : new String[] {current};
  }

  @Override
  @SuppressWarnings("deprecation") // its successor in Spark 4.1, which calls this one, is not in 4.0
  public Table createTable(
      Identifier identifier, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    String namespace = existing(identifier.namespace());
    Map<String, String> given = Pipelines.withoutOwn(properties);
    Map<String, String> complete = Pipelines.targetOf(identifier).flatMap(this::object)
        .map(target -> Pipelines.propertiesOfState(target, columns, given)).orElse(given);
    ObjectNode spec = spec(identifier, columns, partitions, complete);
    return created(writer(), namespace, identifier, spec, Pipelines.annotations(properties));
  }

  private ObjectNode spec(Identifier identifier, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    String namespace = Names.quoted(name) + "." + Names.quoted(identifier.namespace()[0]);
    return TableDefinition.spec(Names.quoted(name, identifier), namespace, columns, partitions, properties);
  }

  private ColocationTable created(
      TableWriter writer, String namespace, Identifier identifier, ObjectNode spec, Map<String, String> annotations)
      throws TableAlreadyExistsException {
    if (!writer.create(namespace, identifier.name(), spec, annotations)) {
      throw new TableAlreadyExistsException(identifier);
    }
    try {
      return (ColocationTable) loadTable(identifier);
    } catch (NoSuchTableException error) {
      throw new ColocationException(Names.quoted(name, identifier) + " was dropped by someone else", error).unchecked();
    }
  }

  /** Tables as they are now. */
  private NewestTables newestTables() {
    return new NewestTables(name, present(), loader, indexes);
  }

  // Tables that are made or replaced together with their rows

  @Override
  @SuppressWarnings("deprecation") // as createTable
  public StagedTable stageCreate(
      Identifier identifier, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    String namespace = existing(identifier.namespace());
    ObjectNode spec = spec(identifier, columns, partitions, properties);
    TableWriter writer = writer();
    try {
      ColocationTable made = created(writer, namespace, identifier, spec, Map.of());
      return new StagedColocationTable(made.loaded(), indexes, changing(), writer, columns, Optional.empty());
    } catch (Exception error) {
      writer.takeBack(namespace, identifier.name(), error);
      throw error;
    }
  }

  @Override
  @SuppressWarnings("deprecation") // as createTable
  public StagedTable stageReplace(
      Identifier identifier, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws NoSuchNamespaceException, NoSuchTableException {
    String namespace = existing(identifier.namespace());
    LoadedTable table = newest(identifier).loaded();
    String object = table.object().name();
    JsonNode before = writer().read(namespace, object).orElseThrow(() -> new NoSuchTableException(identifier));
    ObjectNode patch =
        TableChanges.replacement(before.path("spec"), TableDefinition.replacement(columns, partitions, properties));
    writer().validate(namespace, object, before, patch);
    return new StagedColocationTable(
        table.redefined(patched(before, patch)), indexes, changing(), writer(), columns,
        Optional.of(new StagedColocationTable.Replacement(before, patch)));
  }

  private static ColocatedTable patched(JsonNode before, ObjectNode patch) {
    ObjectNode object = before.deepCopy();
    ((ObjectNode) object.path("spec")).setAll(patch);
    return ColocatedTable.parse(object);
  }

  @Override
  @SuppressWarnings("deprecation") // as createTable
  public StagedTable stageCreateOrReplace(
      Identifier identifier, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws NoSuchNamespaceException {
    try {
      return tableExists(identifier)
          ? stageReplace(identifier, columns, partitions, properties)
          : stageCreate(identifier, columns, partitions, properties);
    } catch (NoSuchTableException | TableAlreadyExistsException error) {
      throw new ColocationException(
          Names.quoted(name, identifier) + " was created or dropped by someone else meanwhile; start again", error).unchecked();
    }
  }

  @Override
  public Table alterTable(Identifier identifier, TableChange... changes) throws NoSuchTableException {
    if (!tableExists(identifier)) {
      throw new NoSuchTableException(identifier);
    }
    String namespace = Names.ofSql(identifier.namespace()[0]);
    String table = Names.ofSql(identifier.name());
    TableWriter writer = writer();
    TableChange[] others = Pipelines.withoutOwn(changes);
    if (DroppedColumns.areIn(others) && object(identifier).flatMap(ColocatedTable::snapshot).isPresent()) {
      new DroppedColumns(newest(identifier)).drop(writer, others);
    } else {
      writer.change(namespace, table, TableChanges.patching(List.of(), others));
    }
    writer.annotate(namespace, table, Pipelines.annotations(changes)); // last: a change that is refused leaves nothing behind
    return loadTable(identifier);
  }

  /** Its files wait in the recycle bin. */
  @Override
  public boolean dropTable(Identifier identifier) {
    Optional<ColocatedTable> table = object(identifier);
    table.ifPresent(found -> writer().delete(found.namespace(), found.name(), found.uid()));
    return table.isPresent();
  }

  @Override
  public boolean purgeTable(Identifier identifier) {
    String table = Names.quoted(name, identifier);
    throw new ColocationException("DROP TABLE … PURGE of " + table + "; dropped files wait in the recycle bin: to have them gone at "
        + "once, ALTER TABLE " + table + " SET TBLPROPERTIES ('recycle_after_seconds' = '0'), then DROP TABLE without PURGE")
        .unchecked();
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    throw new ColocationException(Names.quoted(name, from) + " cannot be renamed: its files lie in folders of its name; use CREATE "
        + "TABLE … AS SELECT into a table of the other name, then DROP TABLE").unchecked();
  }

  private TableWriter writer() {
    return new TableWriter(api()::send, acceptSeconds);
  }

  private ColocationTable.Changing changing() {
    return new ColocationTable.Changing(api(), acceptSeconds, (namespace, table, mostFiles) ->
        TableCompaction.run(newest(Identifier.of(new String[] {namespace}, table)), mostFiles, List.of()));
  }

  private ColocationTable newest(Identifier identifier) throws NoSuchTableException {
    return (ColocationTable) load(identifier, loader::newest);
  }

  // Procedures

  @Override
  public UnboundProcedure loadProcedure(Identifier identifier) {
    return new Procedures(name, this::namespaceOfProcedures, new TablesOfProcedures()).find(identifier);
  }

  private final class TablesOfProcedures implements Procedures.Tables {
    @Override
    public ColocationTable newest(Identifier identifier) throws NoSuchTableException {
      return ClusterCatalog.this.newest(identifier);
    }

    @Override
    public TableWriter writer() {
      return ClusterCatalog.this.writer();
    }
  }

  private String[] namespaceOfProcedures() {
    String[] current = currentNamespace();
    return current.length == 0 ? defaultNamespace() : current;
  }

  /** Spark 4.0 does not ask. */
  @Override
  public Identifier[] listProcedures(String[] namespace) {
    return Procedures.list(namespace);
  }

  // Namespaces

  @Override
  public String[][] listNamespaces() {
    return present().namespaces(defaultNamespace()).stream().map(one -> new String[] {one}).toArray(String[][]::new);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length == 0) {
      return listNamespaces();
    }
    existing(namespace);
    return new String[0][];
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length == 0) {
      throw new NoSuchNamespaceException(namespace);
    }
    existing(namespace);
    return Map.of();
  }

  private String existing(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length == 0) {
      throw new ColocationException("name the namespace: " + name + ".<namespace>, or " + name + ".<namespace>.<table>").unchecked();
    }
    if (namespace.length != 1 || !present().hasNamespace(Names.ofSql(namespace[0]))) {
      throw new NoSuchNamespaceException(namespace);
    }
    return Names.ofSql(namespace[0]);
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) {
    String wanted = String.join(".", namespace);
    throw new ColocationException("there is no namespace " + wanted + ", and namespaces of catalog " + name + " are Kubernetes "
        + "namespaces: make it by `colocation init -n " + wanted + "`; a database for views is spark_catalog." + wanted).unchecked();
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw clustersOwn();
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    throw clustersOwn();
  }

  private RuntimeException clustersOwn() {
    return new ColocationException("namespaces of catalog " + name + " are Kubernetes namespaces: create, change and delete "
        + "them with kubectl").unchecked();
  }
}
