package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Names;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;

/** What Spark Declarative Pipelines ask of a catalog beyond statements of SQL. */
final class Pipelines {
  private static final String PROPERTY = "pipelines.";
  private static final String ENGINE = "org.apache.spark.sql.pipelines.";
  private static final String ANALYSIS = "org.apache.spark.sql.catalyst.analysis.";

  /** Begins the name of the table in which Auto CDC keeps the state of another one. */
  private static final String STATE = Names.AUTO_CDC + "aux_state_";

  private Pipelines() {}

  /** Whether the engine of pipelines asks for a table, itself or by a writer of rows, and not the analysis of a query. */
  static boolean areAsking() {
    return StackWalker.getInstance().walk(frames -> frames.map(StackWalker.StackFrame::getClassName)
        .takeWhile(name -> !name.startsWith(ANALYSIS)).anyMatch(name -> name.startsWith(ENGINE)));
  }

  /** Whether a property is one that the engine keeps with its tables; the operator does not know them. */
  static boolean isProperty(String key) {
    return key.startsWith(PROPERTY);
  }

  /** These properties, as annotations of the object. */
  static Map<String, String> annotations(Map<String, String> properties) {
    Map<String, String> found = new TreeMap<>();
    properties.keySet().stream().filter(Pipelines::isProperty).forEach(key -> found.put(annotation(key), properties.get(key)));
    return found;
  }

  /** Changes of these properties as annotations; null removes one. */
  static Map<String, String> annotations(TableChange... changes) {
    Map<String, String> found = new TreeMap<>();
    for (TableChange change : changes) {
      if (change instanceof TableChange.SetProperty set && isProperty(set.property())) {
        found.put(annotation(set.property()), set.value());
      } else if (change instanceof TableChange.RemoveProperty removed && isProperty(removed.property())) {
        found.put(annotation(removed.property()), null);
      }
    }
    return found;
  }

  private static String annotation(String property) {
    return ColocatedTable.PIPELINES + property.substring(PROPERTY.length());
  }

  static Map<String, String> withoutOwn(Map<String, String> properties) {
    Map<String, String> others = new TreeMap<>(properties);
    others.keySet().removeIf(Pipelines::isProperty);
    return others;
  }

  static TableChange[] withoutOwn(TableChange... changes) {
    return Arrays.stream(changes).filter(change -> annotations(change).isEmpty()).toArray(TableChange[]::new);
  }

  /** The table whose state Auto CDC keeps in a table of this name. */
  static Optional<Identifier> targetOf(Identifier state) {
    return state.name().startsWith(STATE)
        ? Optional.of(Identifier.of(state.namespace(), state.name().substring(STATE.length()))) : Optional.empty();
  }

  /**
   * The properties of a table with Auto CDC's state. The engine gives it no layout; it gets its target's, so that both are in one
   * group and their rows meet by bucket.
   *
   * @throws ColocationException (unchecked) when it lacks columns of the target's key
   */
  static Map<String, String> propertiesOfState(ColocatedTable target, Column[] columns, Map<String, String> given) {
    List<String> key = target.layout().bucketedBy();
    if (!key.stream().allMatch(name -> Arrays.stream(columns).anyMatch(column -> column.name().equalsIgnoreCase(name)))) {
      throw TableDefinition.refused("the keys of Auto CDC into " + target.shownName() + " lack its bucket key (" + String.join(", ", key)
          + "), by which rows are found: add it to keys, or give 'clustered_by' of these");
    }
    Map<String, String> properties = new TreeMap<>(given);
    Map<String, String> ofTarget = TableProperty.givenBy(target.spec());
    Stream.of(TableProperty.COLOCATE_WITH, TableProperty.REPLICATION_NUM, TableProperty.CLUSTERED_BY, TableProperty.BUCKETS)
        .map(TableProperty::key).filter(ofTarget::containsKey).forEach(name -> properties.put(name, ofTarget.get(name)));
    return properties;
  }

  /**
   * A table as the engine sees it. It compares the partitioning with {@code partition_cols}, which name no buckets, and gives Auto
   * CDC only targets of this interface. Statements see a {@link ColocationTable}, of which {@link RowChanges} runs the MERGE.
   */
  static final class PipelineTable extends ColocationTable implements SupportsRowLevelOperations {
    PipelineTable(LoadedTable table, FileIndexes indexes, Changing changing) {
      super(table, indexes, changing);
    }

    @Override
    public Transform[] partitioning() {
      return Arrays.stream(super.partitioning()).filter(transform -> transform.name().equals("identity")).toArray(Transform[]::new);
    }

    @Override
    public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
      throw withoutExtensions(name());
    }
  }
}
