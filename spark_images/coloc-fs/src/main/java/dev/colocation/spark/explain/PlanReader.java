package dev.colocation.spark.explain;

import dev.colocation.spark.explain.PlanNode.Broadcast;
import dev.colocation.spark.explain.PlanNode.Grouping;
import dev.colocation.spark.explain.PlanNode.Join;
import dev.colocation.spark.explain.PlanNode.Key;
import dev.colocation.spark.explain.PlanNode.Scan;
import dev.colocation.spark.explain.PlanNode.Scan.Coalesced;
import dev.colocation.spark.plan.JoinsInPlace;
import dev.colocation.spark.plan.JoinsInPlace.Compared;
import dev.colocation.spark.plan.RowsInPlace;
import dev.colocation.spark.plan.SortedBucketScanExec;
import dev.colocation.spark.plan.StandsFor;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.rdd.EmptyRDD;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.KnownFloatingPointNormalized;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.optimizer.BuildLeft$;
import org.apache.spark.sql.catalyst.optimizer.BuildSide;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.catalyst.plans.FullOuter$;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CommandResultExec;
import org.apache.spark.sql.execution.ExpandExec;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.ReusedSubqueryExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.joins.BaseJoinExec;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import org.apache.spark.sql.execution.joins.BroadcastNestedLoopJoinExec;
import org.apache.spark.sql.execution.joins.CartesianProductExec;
import org.apache.spark.sql.execution.python.FlatMapGroupsInBatchExec;
import org.apache.spark.sql.execution.window.WindowExecBase;
import scala.Option;
import scala.Product;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Reads one plan. Adaptive execution wraps plans and stages; what is read is the plan that is, or will first be, run: the final one
 * once the query was executed, else the initial one.
 */
final class PlanReader {
  /** Of those that Spark has, one puts sessions of a stream together and brings no groups together. */
  private static final Set<String> AGGREGATES = Set.of("HashAggregateExec", "SortAggregateExec", "ObjectHashAggregateExec");
  /** Functions of Python that aggregate, in Spark 4.0 and later. */
  private static final Set<String> PYTHON_AGGREGATES = Set.of("AggregateInPandasExec", "ArrowAggregatePythonExec");

  private final long broadcastThresholdBytes;

  /** @param broadcastThresholdBytes up to which size Spark broadcasts by itself; negative = never */
  PlanReader(long broadcastThresholdBytes) {
    this.broadcastThresholdBytes = broadcastThresholdBytes;
  }

  PlanNode read(SparkPlan given) {
    boolean isReused = false;
    Optional<String> ranges = Optional.empty();
    SparkPlan node = given;
    for (Optional<SparkPlan> inner = wrapped(node); inner.isPresent(); inner = wrapped(node)) {
      isReused |= node instanceof ReusedExchangeExec || node instanceof ReusedSubqueryExec;
      ranges = node instanceof SortedBucketScanExec sorted ? sorted.ranges() : ranges;
      node = inner.get();
    }
    if (node instanceof InMemoryTableScanExec cached) {
      return cached(cached);
    }
    return new PlanNode(
        name(node), read(node.children()), read(node.subqueries()),
        node instanceof FileSourceScanExec scan ? Optional.of(scan(scan, ranges)) : Optional.empty(),
        node instanceof BaseJoinExec join ? Optional.of(join(node, join)) : Optional.empty(),
        grouping(node), aliases(node),
        node instanceof ShuffleExchangeExec shuffle ? shuffle.shuffleOrigin().toString() : "", isReused);
  }

  /** What an operator stands for, or runs. */
  private static Optional<SparkPlan> wrapped(SparkPlan node) {
    if (node instanceof AdaptiveSparkPlanExec adaptive) {
      return Optional.of(adaptive.executedPlan());
    }
    if (node instanceof QueryStageExec stage) {
      return Optional.of(stage.plan());
    }
    if (node instanceof CommandResultExec command) {
      return Optional.of(command.commandPhysicalPlan());
    }
    if (node instanceof ReusedExchangeExec reused) {
      return Optional.of((SparkPlan) reused.child());
    }
    if (node instanceof ReusedSubqueryExec reused) {
      return Optional.of(reused.child());
    }
    return node instanceof StandsFor other ? Optional.of(other.plain()) : Optional.empty();
  }

  private List<PlanNode> read(Seq<SparkPlan> nodes) {
    return list(nodes).stream().map(this::read).toList();
  }

  private static String name(SparkPlan node) {
    // The catalog plans a source that is computed first as an empty RDD.
    return node instanceof RDDScanExec rows && rows.rdd() instanceof EmptyRDD ? PlanNode.MERGE_SOURCE
        : node.getClass().getSimpleName().replaceAll("Exec$", "");
  }

  /** Cached rows lie in the partitions of the plan that made them, under ids of their own. */
  private PlanNode cached(InMemoryTableScanExec node) {
    List<Attribute> here = list(node.relation().output());
    List<Attribute> below = list(node.relation().cachedPlan().output());
    Map<Long, OptionalLong> aliases = new HashMap<>();
    for (int place = 0; place < here.size(); place++) {
      if (id(here.get(place)) != id(below.get(place))) {
        aliases.put(id(here.get(place)), OptionalLong.of(id(below.get(place))));
      }
    }
    return new PlanNode(name(node), List.of(read(node.relation().cachedPlan())), read(node.subqueries()),
        Optional.empty(), Optional.empty(), Optional.empty(), aliases, "", true);
  }

  private static Scan scan(FileSourceScanExec node, Optional<String> ranges) {
    Map<Long, String> columns = new HashMap<>();
    list(node.output()).forEach(column -> columns.put(id(column), column.name()));
    return new Scan(
        list(node.relation().location().rootPaths()).stream().findFirst().map(Path::toString).orElse(""),
        node.tableIdentifier().isDefined() ? node.tableIdentifier().get().unquotedString() : "",
        node.bucketedScan(), columns, KnownTable.of(node.relation()), java(node.optionalNumCoalescedBuckets())
            .map(readAs -> new Coalesced(node.relation().bucketSpec().get().numBuckets(), (int) readAs)), ranges);
  }

  // Joins

  private Join join(SparkPlan node, BaseJoinExec join) {
    Optional<BuildSide> copied = node instanceof BroadcastHashJoinExec hash ? Optional.of(hash.buildSide())
        : node instanceof BroadcastNestedLoopJoinExec loop ? Optional.of(loop.buildSide()) : Optional.empty();
    List<Compared> compared = JoinsInPlace.compared(join.leftKeys(), join.rightKeys());
    return new Join(
        node instanceof CartesianProductExec ? "Cross" : join.joinType().toString(),
        compared.stream().map(one -> key(one.left())).toList(), compared.stream().map(one -> key(one.right())).toList(),
        compared.stream().map(Compared::nullSafe).toList(), hint(node), copied.map(side -> broadcast(node, side)),
        node instanceof BroadcastHashJoinExec hash && hash.isNullAwareAntiJoin());
  }

  private Broadcast broadcast(SparkPlan join, BuildSide copied) {
    int side = copied == BuildLeft$.MODULE$ ? 0 : 1;
    return new Broadcast(side, estimatedBytes(list(join.children()).get(side)), broadcastThresholdBytes);
  }

  /** The strategy that the query names for a join, as Spark's hint calls it; empty = none. */
  private static String hint(SparkPlan node) {
    if (!(logical(node).orElse(null) instanceof org.apache.spark.sql.catalyst.plans.logical.Join join)) {
      return "";
    }
    return Stream.of(join.hint().leftHint(), join.hint().rightHint()).flatMap(side -> java(side).stream())
        .map(HintInfo::strategy).flatMap(strategy -> java(strategy).stream()).findFirst()
        .map(strategy -> strategy.displayName()).orElse("");
  }

  /** Spark's estimate of what a broadcast copies; stages and exchanges may not know their logical operator. */
  private static Optional<BigInteger> estimatedBytes(SparkPlan node) {
    if (logical(node).isPresent()) {
      return logical(node).map(plan -> plan.stats().sizeInBytes().bigInteger());
    }
    if (wrapped(node).isPresent()) {
      return estimatedBytes(wrapped(node).get());
    }
    List<SparkPlan> children = list(node.children());
    return children.size() == 1 ? estimatedBytes(children.get(0)) : Optional.empty();
  }

  /** The logical operator that a physical one was planned from. */
  private static Optional<LogicalPlan> logical(SparkPlan node) {
    return java(node.logicalLink()).map(link -> link instanceof LogicalQueryStage stage ? stage.logicalPlan() : link);
  }

  // Group-bys and windows

  /** Of aggregates only the phases that need their groups in one partition, not the partial ones before them. */
  private static Optional<Grouping> grouping(SparkPlan node) {
    if (node instanceof WindowExecBase window) {
      return Optional.of(grouping(node, Grouping.Kind.WINDOW, keys(window.partitionSpec())));
    }
    return keysOfAggregate(node).map(keys -> grouping(node, Grouping.Kind.AGGREGATE, keys));
  }

  private static Grouping grouping(SparkPlan node, Grouping.Kind kind, List<Key> keys) {
    return new Grouping(kind, keys, logical(node).map(plan -> OptionalInt.of(plan.hashCode())).orElseGet(OptionalInt::empty));
  }

  private static Optional<List<Key>> keysOfAggregate(SparkPlan node) {
    if (node instanceof FlatMapGroupsInBatchExec groups) {
      return Optional.of(keys(groups.groupingAttributes()));
    }
    if (PYTHON_AGGREGATES.contains(node.getClass().getSimpleName())) {
      return Optional.of(keys((Seq<?>) field(node, "groupingExpressions")));
    }
    return aggregate(node).filter(one -> one.requiredChildDistributionExpressions().isDefined())
        .map(one -> keys(one.groupingExpressions()));
  }

  private static Optional<BaseAggregateExec> aggregate(SparkPlan node) {
    return AGGREGATES.contains(node.getClass().getSimpleName()) ? Optional.of((BaseAggregateExec) node) : Optional.empty();
  }

  private static Object field(Product node, String name) {
    return IntStream.range(0, node.productArity()).filter(place -> node.productElementName(place).equals(name))
        .mapToObj(node::productElement).findFirst().orElseThrow();
  }

  // Columns

  /** New names of columns: of a projection, of an aggregate's keys and results, and where each row becomes several. */
  private static Map<Long, OptionalLong> aliases(SparkPlan node) {
    List<NamedExpression> named = new ArrayList<>();
    if (node instanceof ProjectExec project) {
      named.addAll(list(project.projectList()));
    }
    aggregate(node).ifPresent(aggregate -> {
      named.addAll(list(aggregate.groupingExpressions()));
      named.addAll(list(aggregate.resultExpressions()));
    });
    Map<Long, OptionalLong> aliases = new HashMap<>();
    for (NamedExpression one : named) {
      if (one instanceof Alias alias) {
        aliases.put(alias.exprId().id(), column(node, alias.child()));
      }
    }
    if (node instanceof ExpandExec expand) {
      RowsInPlace.kept(expand).forEach(names -> names.forEach((column, name) -> {
        if (id(name) != column.id()) {
          aliases.put(id(name), OptionalLong.of(column.id()));
        }
      }));
    }
    return aliases;
  }

  /** The column that an expression is. Rows of a full outer join by {@code a.k} and {@code b.k} are distributed by {@code coalesce(a.k, b.k)}. */
  private static OptionalLong column(SparkPlan node, Expression expression) {
    boolean isOfFullJoin = expression instanceof Coalesce both && both.children().size() == 2 && node.exists(
        below -> (below instanceof StandsFor other ? other.plain() : below) instanceof BaseJoinExec join && join.joinType() == FullOuter$.MODULE$ && compares(join, both));
    return key(isOfFullJoin ? expression.children().head() : expression).column();
  }

  private static boolean compares(BaseJoinExec join, Coalesce both) {
    Expression first = both.children().head();
    Expression last = both.children().last();
    return JoinsInPlace.compared(join.leftKeys(), join.rightKeys()).stream().anyMatch(
        one -> one.left().semanticEquals(first) && one.right().semanticEquals(last)
            || one.left().semanticEquals(last) && one.right().semanticEquals(first));
  }

  /** @param expressions all are; some of Spark's types do not tell Java */
  private static List<Key> keys(Seq<?> expressions) {
    return list(expressions).stream().map(one -> key((Expression) one)).toList();
  }

  private static Key key(Expression given) {
    Expression column = given;
    // What Spark makes of a key of type FLOAT or DOUBLE: rows that are equal by it are in one bucket.
    while (column instanceof KnownFloatingPointNormalized || column instanceof NormalizeNaNAndZero) {
      column = column.children().head();
    }
    return new Key(column.sql(), column instanceof AttributeReference plain ? OptionalLong.of(id(plain)) : OptionalLong.empty());
  }

  private static long id(NamedExpression column) {
    return column.exprId().id();
  }

  // Scala

  private static <T> List<T> list(Seq<T> sequence) {
    return CollectionConverters.asJava(sequence);
  }

  private static <T> Optional<T> java(Option<T> option) {
    return option.isDefined() ? Optional.of(option.get()) : Optional.empty();
  }
}
