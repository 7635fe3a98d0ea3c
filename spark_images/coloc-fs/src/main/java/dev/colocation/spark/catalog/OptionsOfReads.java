package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Names;
import dev.colocation.spark.options.KnownOptions;
import dev.colocation.spark.options.Way;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.runtime.AbstractPartialFunction;

/**
 * Options of reads, {@code spark.read.option(…).table(t)} and {@code SELECT … FROM t WITH (…)}: refuses those that are not taken, and
 * gives Spark those that choose a snapshot under the names that it reads. Before tables are looked up, since the second relation of
 * a table in a query is a copy of the first, without options of its own. Names of {@code INSERT … WITH (…)} are checked here, too.
 */
public final class OptionsOfReads extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(OptionsOfReads.class);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      return plan.resolveOperatorsUp(new Judged());
    } catch (LinkageError error) {
      LOG.warn("this Spark's plans are not understood; options of reads are judged later", error);
      return plan;
    }
  }

  /** The options of a relation that is read now: what has no effect is logged, what was not done is refused. */
  static void take(String table, CaseInsensitiveStringMap options) {
    check(Way.READ, options.asCaseSensitiveMap().keySet());
    SnapshotOptions.requireSparks(table, options);
    KnownOptions.withoutEffect(Way.READ, options.keySet()).forEach(line -> LOG.warn("{}: {}", table, line));
  }

  private static void check(Way way, Set<String> given) {
    KnownOptions.refusal(way, given).ifPresent(refusal -> {
      throw new ColocationException("InvalidOption: " + refusal).unchecked();
    });
  }

  private static final class Judged extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return relation(node) instanceof UnresolvedRelation relation && !relation.options().isEmpty();
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      UnresolvedRelation relation = (UnresolvedRelation) relation(node);
      CaseInsensitiveStringMap given = relation.options();
      if (!OwnNames.isOurs(relation)) {
        refuseOfView(relation);
        return node;
      }
      if (node instanceof InsertIntoStatement) {
        // Spark would look for an older snapshot to write to, and end in an internal error.
        check(Way.WRITE, given.asCaseSensitiveMap().keySet());
        return node;
      }
      check(relation.isStreaming() ? Way.STREAM_READ : Way.READ, given.asCaseSensitiveMap().keySet());
      CaseInsensitiveStringMap read = SnapshotOptions.asSparks(given);
      if (read.equals(given)) {
        return node;
      }
      UnresolvedRelation chosen = new UnresolvedRelation(relation.multipartIdentifier(), read, relation.isStreaming());
      return node instanceof RelationTimeTravel travel
          ? new RelationTimeTravel(chosen, travel.timestamp(), travel.version()) : chosen;
    }

    /** Spark drops the options of a view. */
    private static void refuseOfView(UnresolvedRelation relation) {
      if (KnownOptions.chooseRows(Way.READ, relation.options().keySet())) {
        OwnNames.tableOfView(relation).ifPresent(table -> {
          throw new ColocationException("InvalidOption: " + relation.name() + " is a view of ColocatedTable " + table
              + ", and a view takes no options: read the table, <catalog>." + table.replace('/', '.')).unchecked();
        });
      }
    }

    private static LogicalPlan relation(LogicalPlan node) {
      return node instanceof RelationTimeTravel travel ? travel.relation()
          : node instanceof InsertIntoStatement insert ? insert.table() : node;
    }
  }
}
