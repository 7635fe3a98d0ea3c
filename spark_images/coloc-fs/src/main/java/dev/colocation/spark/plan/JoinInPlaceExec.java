package dev.colocation.spark.plan;

import dev.colocation.spark.plan.JoinsInPlace.Compared;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.FullOuter$;
import org.apache.spark.sql.catalyst.plans.physical.Distribution;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.PartitioningCollection;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.joins.ShuffledJoin;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A join of Spark's, while a query is planned, that asks for less and tells more.
 *
 * <p>By {@code a.k <=> b.k} Spark compares {@code coalesce(k, 0)} and {@code k IS NULL} of both sides, and asks for rows that are
 * distributed by these two. Rows that are distributed by {@code k} serve as well: these two are equal where {@code k} is, NULL among
 * its values, and all NULLs have the same hash.
 *
 * <p>Of a full outer join's rows Spark tells nothing. Where both sides are distributed by the keys, they are distributed by {@code
 * coalesce(a.k, b.k)}, the column of {@code USING (k)}: a row without a partner stays where its own key put it.
 */
final class JoinInPlaceExec extends WhilePlannedExec {
  private static final long serialVersionUID = 1L;

  JoinInPlaceExec(SparkPlan known) {
    super(known);
  }

  @Override
  JoinInPlaceExec of(SparkPlan other) {
    return new JoinInPlaceExec(other);
  }

  @Override
  public Seq<SparkPlan> children() {
    return plain().children();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return of(plain().withNewChildren(newChildren));
  }

  @Override
  public Seq<Seq<SortOrder>> requiredChildOrdering() {
    return plain().requiredChildOrdering();
  }

  /** What Spark's join of the columns themselves asks for. */
  @Override
  public Seq<Distribution> requiredChildDistribution() {
    List<Expression> left = compared().stream().map(Compared::left).toList();
    List<Expression> right = compared().stream().map(Compared::right).toList();
    SparkPlan ofColumns = PlanFields.with(PlanFields.with(plain(), "leftKeys", sequence(left)), "rightKeys", sequence(right));
    return ofColumns.requiredChildDistribution();
  }

  private List<Compared> compared() {
    return JoinsInPlace.compared(join().leftKeys(), join().rightKeys());
  }

  private ShuffledJoin join() {
    return (ShuffledJoin) plain();
  }

  @Override
  public Partitioning outputPartitioning() {
    Partitioning given = plain().outputPartitioning();
    if (join().joinType() != FullOuter$.MODULE$) {
      return given;
    }
    List<Partitioning> found = hashes(join().left().outputPartitioning())
        .flatMap(left -> hashes(join().right().outputPartitioning()).flatMap(right -> ofEither(left, right))).toList();
    return found.isEmpty() ? given : new PartitioningCollection(sequence(found));
  }

  /** By the keys of the one side or the other; none if the sides are not distributed by the same keys. */
  private Stream<Partitioning> ofEither(HashPartitioning left, HashPartitioning right) {
    int number = left.numPartitions();
    List<Compared> keys = IntStream.range(0, Math.min(left.expressions().size(), right.expressions().size())).boxed()
        .flatMap(place -> pair(left.expressions().apply(place), right.expressions().apply(place)).stream()).toList();
    return number == right.numPartitions() && keys.size() == left.expressions().size() && keys.size() == right.expressions().size()
        ? Stream.of(new HashPartitioning(sequence(keys.stream().map(key -> either(key.left(), key.right())).toList()), number),
            new HashPartitioning(sequence(keys.stream().map(key -> either(key.right(), key.left())).toList()), number))
        : Stream.empty();
  }

  private static Expression either(Expression first, Expression second) {
    return new Coalesce(sequence(List.of(first, second)));
  }

  private Optional<Compared> pair(Expression left, Expression right) {
    return compared().stream().filter(one -> one.left().semanticEquals(left) && one.right().semanticEquals(right)).findFirst();
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
