package dev.colocation.spark.catalog;

import static dev.colocation.spark.explain.Reasons.INCONSISTENT;
import static dev.colocation.spark.explain.Reasons.REDISTRIBUTED;
import static dev.colocation.spark.explain.Reasons.SESSION_DISABLED;
import static dev.colocation.spark.explain.Reasons.TRANSFORMED;

import dev.colocation.spark.explain.ExplainedRowChange.Causes;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.internal.SQLConf;

/** Why the queries of a statement that changes rows shuffle or sort, in the words of the verdicts on joins. */
final class RowChangeReasons {
  private final LoadedTable table;
  private final RowStatement statement;
  private final List<AttributeReference> keys;
  private final SQLConf conf;
  private final String joins;

  /**
   * The reasons of a statement.
   *
   * @param keys the columns of the target's bucket key
   * @param isByKey whether ON compares all of it with the source
   */
  RowChangeReasons(LoadedTable table, RowStatement statement, List<AttributeReference> keys, boolean isByKey, SQLConf conf) {
    this.table = table;
    this.statement = statement;
    this.keys = keys;
    this.conf = conf;
    joins = joins(isByKey);
  }

  private String joins(boolean isByKey) {
    if (!table.decision().bucketed()) {
      return table.decision().reason();
    }
    if (statement.source().isPresent() && !isByKey) {
      return on() + "; the target is shuffled, too";
    }
    return statement.subqueries().findAny().isEmpty() ? REDISTRIBUTED
        : INCONSISTENT + ": a subquery is not joined by the bucket key " + key() + " of " + table.name() + " with a table of its group";
  }

  private String on() {
    Optional<String> transformed = RowChangeQueries.conjuncts(statement.on()).filter(this::transformsKey).map(Expression::sql).findFirst();
    return transformed.map(equal -> TRANSFORMED + ": " + equal).orElseGet(() -> INCONSISTENT + ": " + table.name() + " is bucketed by "
        + key() + ", ON does not compare all of it with the source by =: " + statement.on().sql());
  }

  private boolean transformsKey(Expression equal) {
    return equal instanceof EqualTo sides && keys.stream().anyMatch(key -> equal.references().contains(key)
        && !sides.left().semanticEquals(key) && !sides.right().semanticEquals(key));
  }

  private String key() {
    return "(" + String.join(", ", table.layout().bucketedBy()) + ")";
  }

  /** Of the query that computes the source before the others. */
  Causes ofSource(String whyComputed) {
    return new Causes(whyComputed + "; the source is shuffled, once", REDISTRIBUTED + ": by operators of the source",
        whyComputed + "; the source is sorted, once", ofSubqueries());
  }

  /** Of the query that finds the rows that change. */
  Causes ofChanged() {
    return causes(joins, joins);
  }

  /** Of the rows that stay in their bucket and partition. */
  Causes ofStaying() {
    return causes(written(joins), joins);
  }

  /** Of the rows that do not. */
  Causes ofMoving() {
    return causes(REDISTRIBUTED + ": updated rows move to another bucket, partition or place in their file", joins);
  }

  Causes ofInserted() {
    String otherwise = joins.equals(REDISTRIBUTED)
        ? INCONSISTENT + ": the values inserted into " + key() + " are not those that ON compares with it" : joins;
    return causes(written(otherwise), joins);
  }

  private String written(String otherwise) {
    return isOff("spark.colocation.writeInPlace") ? SESSION_DISABLED + ": spark.colocation.writeInPlace=false" : otherwise;
  }

  private Causes causes(String distributed, String required) {
    String sorted = isOff("spark.colocation.trustSortedFiles") ? SESSION_DISABLED + ": spark.colocation.trustSortedFiles=false"
        : "the rows of a bucket do not come in the order of files";
    return new Causes(distributed, required, sorted, ofSubqueries());
  }

  private static String ofSubqueries() {
    return REDISTRIBUTED + ": by operators of a subquery that is computed first";
  }

  private boolean isOff(String key) {
    return conf.getConfString(key, "true").equalsIgnoreCase("false");
  }
}
