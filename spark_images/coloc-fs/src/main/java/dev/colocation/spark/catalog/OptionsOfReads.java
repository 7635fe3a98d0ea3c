package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Names;
import dev.colocation.spark.options.KnownOptions;
import dev.colocation.spark.options.KnownOptions.Way;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.runtime.AbstractPartialFunction;

/**
 * Options of reads, {@code spark.read.option(…).table(t)} and {@code SELECT … FROM t WITH (…)}: refuses unsupported ones, and
 * passes options that choose a snapshot to Spark under its own names. It runs before tables are resolved, since the second
 * relation of a table in a query is a copy of the first, without options of its own. Names of {@code INSERT … WITH (…)} are
 * checked here, too.
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

  /** The options of a relation that is read now: logs those without effect, and refuses those that were not applied. */
  static void take(String table, CaseInsensitiveStringMap options) {
    check(Way.READ, options.asCaseSensitiveMap().keySet());
    SnapshotOptions.requireSparks(table, options);
    KnownOptions.withoutEffect(Way.READ, options.keySet()).forEach(line -> LOG.warn("{}: {}", table, line));
  }

  /** The same of a relation's CHANGES; those that name the range are done by Spark. */
  static void takeChanges(String table, CaseInsensitiveStringMap options) {
    check(Way.CHANGES, options.asCaseSensitiveMap().keySet());
    KnownOptions.withoutEffect(Way.CHANGES, options.keySet()).forEach(line -> LOG.warn("{}: {}", table, line));
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
      if (!ColocationNames.isOurs(relation)) {
        return node;
      }
      if (node instanceof InsertIntoStatement) {
        // Spark would look for an older snapshot to write to, and fail with an internal error.
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

    private static LogicalPlan relation(LogicalPlan node) {
      return node instanceof RelationTimeTravel travel ? travel.relation()
          : node instanceof InsertIntoStatement insert ? insert.table() : node;
    }
  }

  /** Options that choose a snapshot: all of them as the two that Spark reads itself. */
  static final class SnapshotOptions {
    private static final String VERSION = "versionAsOf";
    private static final String TIME = "timestampAsOf";
    private static final String ICEBERGS_VERSION = "snapshot-id";
    private static final String ICEBERGS_TIME = "as-of-timestamp";
    private static final List<String> NAMES = List.of(ICEBERGS_TIME, ICEBERGS_VERSION, TIME, VERSION);

    private SnapshotOptions() {}

    /** Refuses a read whose options choose a snapshot under names that Spark does not read. */
    static void requireSparks(String table, CaseInsensitiveStringMap options) {
      if (!asSparks(options).equals(options)) {
        throw new ColocationException("InvalidOption: " + table + " is read with " + ICEBERGS_VERSION + " or " + ICEBERGS_TIME
            + ", which is done for names of a ColocationCatalog only: use " + VERSION + " or " + TIME).unchecked();
      }
    }

    /**
     * The options under Spark's own names.
     *
     * @throws ColocationException (unchecked) when they choose two snapshots
     */
    static CaseInsensitiveStringMap asSparks(CaseInsensitiveStringMap options) {
      SQLConf conf = SQLConf.get();
      return asSparks(options, conf.getConfString("spark.sql.timeTravelVersionKey", VERSION),
          conf.getConfString("spark.sql.timeTravelTimestampKey", TIME));
    }

    /** {@code version} and {@code time}: the names that Spark reads. */
    static CaseInsensitiveStringMap asSparks(CaseInsensitiveStringMap options, String version, String time) {
      List<String> given = NAMES.stream().filter(options::containsKey).toList();
      if (given.isEmpty()) {
        return options;
      }
      Map<String, String> chosen = new TreeMap<>();
      for (String name : given) {
        boolean isVersion = name.equals(VERSION) || name.equals(ICEBERGS_VERSION);
        String value = name.equals(ICEBERGS_TIME) ? time(options.get(name)) : options.get(name);
        chosen.merge(isVersion ? version : time, value, (one, other) -> one.equals(other) ? one : refuseBoth(given, options));
      }
      if (chosen.size() > 1) {
        refuseBoth(given, options);
      }
      Map<String, String> all = new TreeMap<>(options.asCaseSensitiveMap());
      all.keySet().removeIf(name -> NAMES.stream().anyMatch(name::equalsIgnoreCase));
      all.putAll(chosen);
      return new CaseInsensitiveStringMap(all);
    }

    private static String refuseBoth(List<String> given, CaseInsensitiveStringMap options) {
      throw new ColocationException("InvalidOption: options " + given.stream()
          .map(name -> name + "='" + options.get(name) + "'").collect(Collectors.joining(" and "))
          + " choose different snapshots; give one of them").unchecked();
    }

    private static String time(String milliseconds) {
      try {
        return Instant.ofEpochMilli(Long.parseLong(milliseconds)).toString();
      } catch (NumberFormatException | DateTimeException error) {
        throw new ColocationException("InvalidOption: " + ICEBERGS_TIME + "='" + milliseconds
            + "'; allowed: milliseconds since 1970-01-01 UTC, or use " + TIME + "='<time>'").unchecked();
      }
    }
  }
}
