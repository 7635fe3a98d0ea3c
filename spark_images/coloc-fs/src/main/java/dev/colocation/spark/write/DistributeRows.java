package dev.colocation.spark.write;

import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.cluster.Types;
import dev.colocation.spark.cluster.WriteException.InvalidOption;
import dev.colocation.spark.plan.InPlaceWrites;
import dev.colocation.spark.write.ReadSnapshot.StaleReads;
import dev.colocation.spark.write.WriteTarget.Writable;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.streaming.sources.WriteToMicroBatchDataSource;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.Product;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Distributes a write's rows: rows of a partition and bucket come to one task, or to several when they are many (adaptive
 * execution splits and merges), in the order of files. The bucket is that of Spark's own bucketed tables; it is computed
 * once for the shuffle and the sort, and again for each row that is written.
 */
public final class DistributeRows extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(DistributeRows.class);

  /** Commands are roots of plans; those of {@code FROM … INSERT … INSERT …} are a union at the root. */
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      Set<String> written = new HashSet<>();
      if (plan instanceof Union several) {
        List<LogicalPlan> commands = CollectionConverters.asJava(several.children());
        return several.withNewChildren(sequence(commands.stream().map(command -> ofCommand(command, written)).toList()));
      }
      return ofCommand(plan, written);
    } catch (LinkageError error) {
      LOG.warn("this Spark's plans are not understood; tables of a ColocationCatalog cannot be written", error);
      return plan;
    }
  }

  /**
   * A command's plan with its rows distributed.
   *
   * @param written tables that the statement writes with idempotency keys, and these keys
   */
  private static LogicalPlan ofCommand(LogicalPlan plan, Set<String> written) {
    if (plan instanceof AppendData command) {
      return inserted(command, command.writeOptions(), written, DistributeRows::ofAppend);
    }
    if (plan instanceof OverwriteByExpression command) {
      return inserted(command, command.writeOptions(), written, DistributeRows::ofOverwrite);
    }
    if (plan instanceof OverwritePartitionsDynamic command) {
      return inserted(command, command.writeOptions(), written, DistributeRows::ofOverwrite);
    }
    if (plan instanceof WriteToMicroBatchDataSource command) {
      return target(command)
          .map(table -> changed(
              command, query -> distributed(query, table, options(command.writeOptions()))))
          .orElse(plan);
    }
    return plan;
  }

  /**
   * Checks the lengths of texts, and pads those of CHAR columns. Spark does so in most statements, but not in streams, of columns
   * that have the type already, and with {@code spark.sql.legacy.charVarcharAsString}.
   */
  private static LogicalPlan withLengths(LogicalPlan query, Writable table) {
    List<NamedExpression> checked = new ArrayList<>();
    boolean isAny = false;
    for (Attribute given : CollectionConverters.asJava(query.output())) {
      Optional<DataType> type = table.layout().columns().stream()
          .filter(column -> column.name().equalsIgnoreCase(given.name()) && Types.hasLength(column.type()))
          .map(column -> Types.declared(column.type())).findFirst();
      isAny |= type.isPresent();
      checked.add(type.<NamedExpression>map(declared -> named(
          CharVarcharUtils.stringLengthCheck(given, declared), given.name(), Option.apply(given.metadata()))).orElse(given));
    }
    return isAny ? new Project(sequence(checked), query) : query;
  }

  private static Alias named(Expression expression, String name, Option<Metadata> metadata) {
    return new Alias(
        expression, name, NamedExpression$.MODULE$.newExprId(), sequence(List.of()), metadata, sequence(List.of()));
  }

  /** Spark's versions have the table of a stream's write in different fields, of different types. */
  private static Optional<Writable> target(Product command) {
    for (int field = 0; field < command.productArity(); field++) {
      Object value = command.productElement(field);
      if ((value instanceof DataSourceV2Relation relation ? relation.table() : value) instanceof Writable table) {
        return Optional.of(table);
      }
    }
    return Optional.empty();
  }

  private static LogicalPlan inserted(
      V2WriteCommand command, scala.collection.immutable.Map<String, String> writeOptions, Set<String> written,
      Function<Query, LogicalPlan> change) {
    if (command.table() instanceof DataSourceV2Relation relation && relation.table() instanceof Writable table) {
      WriteOptions options = options(writeOptions);
      options.key().ifPresent(key -> refuseAnother(key, relation.table().name(), written));
      return changed((LogicalPlan) command,
          query -> distributed(change.apply(new Query(query, table, options)), table, options));
    }
    return (LogicalPlan) command;
  }

  /** The second write would be taken for a repetition of the first, and its rows would be lost. */
  private static void refuseAnother(CommitKey key, String table, Set<String> written) {
    if (!written.add(table + " " + key)) {
      throw new InvalidOption("one statement writes table " + table + " twice under idempotency key " + key.writer()
          + "; allowed: once. Use a statement, and a key, for each");
    }
  }

  private record Query(LogicalPlan plan, Writable table, WriteOptions options) {}

  private static WriteOptions options(scala.collection.immutable.Map<String, String> options) {
    return WriteOptions.of(new CaseInsensitiveStringMap(CollectionConverters.asJava(options)));
  }

  /** A repeated overwrite replaces nothing. The rows of REPLACE TABLE … AS are an overwrite, too. */
  private static LogicalPlan ofOverwrite(Query query) {
    if (!wasCommitted(query)) {
      StaleReads.refuse(query.plan(), query.table().target());
    }
    return query.plan();
  }

  /**
   * A repeated append is not computed again: it gets no rows, and so commits nothing. A statement that replaces files has asked
   * for its key before it made the query.
   */
  private static LogicalPlan ofAppend(Query query) {
    boolean isRepeated = query.options().replacement().isEmpty() && wasCommitted(query);
    return isRepeated ? LocalRelation$.MODULE$.apply(query.plan().output()) : query.plan();
  }

  private static boolean wasCommitted(Query query) {
    return query.options().key().flatMap(key -> query.table().target().begin().committed(key)).isPresent();
  }

  private static LogicalPlan changed(LogicalPlan command, Function<LogicalPlan, LogicalPlan> change) {
    List<LogicalPlan> children = CollectionConverters.asJava(command.children());
    return command.withNewChildren(sequence(List.of(change.apply(children.get(0)))));
  }

  private static LogicalPlan distributed(LogicalPlan given, Writable table, WriteOptions options) {
    return options.replacement().isPresent() ? replacing(given, table, options)
        : inOrder(withLengths(given, table), table, options, InPlaceWrites.BUCKET);
  }

  /** The rows of an UPDATE, DELETE or MERGE as they are written. */
  public static LogicalPlan ofRowChange(LogicalPlan query, Writable table) {
    return replacing(query, table, options(Map$.MODULE$.<String, String>empty()));
  }

  /** Rows of a statement that replaces files are checked by it. Its rows that stay, move and come are branches of a union. */
  private static LogicalPlan replacing(LogicalPlan given, Writable table, WriteOptions options) {
    // Branches of a compaction are parts of the table, which are tasks of their own.
    String bucket = options.isCompaction() ? InPlaceWrites.BUCKET : InPlaceWrites.MERGED_BUCKET;
    if (given instanceof Union branches) {
      List<LogicalPlan> children = CollectionConverters.asJava(branches.children());
      return branches.withNewChildren(sequence(children.stream().map(child -> inOrder(child, table, options, bucket)).toList()));
    }
    return inOrder(given, table, options, bucket);
  }

  private static LogicalPlan inOrder(LogicalPlan query, Writable table, WriteOptions options, String bucketName) {
    TableLayout layout = table.layout();
    List<Attribute> output = CollectionConverters.asJava(query.output());
    // A stream's rows are matched when the write begins, and refused there with the reason.
    if (!hasColumns(output, layout)) {
      return query;
    }
    Alias bucket = named(bucket(columns(output, layout.bucketedBy()), options.buckets(table)), bucketName, Option.empty());
    List<NamedExpression> withBucket = new ArrayList<>(output);
    withBucket.add(bucket);
    List<Expression> partition = columns(output, layout.partitionedBy());
    List<Expression> together = new ArrayList<>(partition);
    together.add(bucket.toAttribute());
    List<Expression> order = new ArrayList<>();
    partition.forEach(column -> order.addAll(asPartition(column)));
    order.add(bucket.toAttribute());
    order.addAll(columns(output, layout.sortedInFiles()));
    LogicalPlan shuffled = shuffled(together, new Project(sequence(withBucket), query), options);
    LogicalPlan sorted = new Sort(
        sequence(order.stream().map(DistributeRows::ascending).toList()), false, shuffled, Option.empty());
    return new Project(sequence(new ArrayList<NamedExpression>(output)), sorted);
  }

  /**
   * Rows with the same values in one task, which several values may share; in several tasks where they are too many, but not in a
   * compaction: it would have to run again immediately.
   */
  private static LogicalPlan shuffled(List<Expression> together, LogicalPlan rows, WriteOptions options) {
    Option<Object> bytes = Option.apply(options.shuffledSize());
    return options.isCompaction()
        ? new RepartitionByExpression(sequence(together), rows, Option.empty(), bytes)
        : new RebalancePartitions(sequence(together), rows, Option.empty(), bytes);
  }

  /** The number of the bucket, as Spark's own bucketed tables have it. */
  public static Expression bucket(List<Expression> keys, int buckets) {
    return new HashPartitioning(sequence(keys), buckets).partitionIdExpression();
  }

  private static boolean hasColumns(List<Attribute> output, TableLayout layout) {
    return layout.columns().stream().allMatch(
        column -> output.stream().anyMatch(attribute -> attribute.name().equalsIgnoreCase(column.name())));
  }

  private static List<Expression> columns(List<Attribute> output, List<String> names) {
    List<Expression> found = new ArrayList<>();
    for (String name : names) {
      found.add(output.stream().filter(column -> column.name().equalsIgnoreCase(name)).findFirst().orElseThrow());
    }
    return found;
  }

  /** What tells a partition from another: its text, too, where equal values have two. */
  private static List<Expression> asPartition(Expression column) {
    return PartitionText.hasTwoZeros(column.dataType())
        ? List.of(column, Cast$.MODULE$.apply(column, DataTypes.StringType, Option.empty(), false)) : List.of(column);
  }

  /** NULL first. */
  private static SortOrder ascending(Expression column) {
    return new SortOrder(column, Ascending$.MODULE$, Ascending$.MODULE$.defaultNullOrdering(), sequence(List.of()));
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
