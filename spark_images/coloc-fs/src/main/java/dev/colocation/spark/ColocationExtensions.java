package dev.colocation.spark;

import dev.colocation.spark.catalog.CatalogStatements;
import dev.colocation.spark.catalog.CheckedTexts;
import dev.colocation.spark.catalog.CheckpointsOfStreams;
import dev.colocation.spark.catalog.ChangesAsFiles;
import dev.colocation.spark.catalog.MergeStars;
import dev.colocation.spark.catalog.MissingColumns;
import dev.colocation.spark.catalog.NewestInStreams;
import dev.colocation.spark.catalog.OptionsOfReads;
import dev.colocation.spark.catalog.OptionsOfWrites;
import dev.colocation.spark.catalog.PartitionConditions;
import dev.colocation.spark.catalog.ReadAsFiles;
import dev.colocation.spark.catalog.RowChanges;
import dev.colocation.spark.catalog.ReadAsFiles.StreamAsFiles;
import dev.colocation.spark.catalog.TimeTravelSubqueries;
import dev.colocation.spark.plan.ChainedOuterJoins;
import dev.colocation.spark.plan.CommonBuckets;
import dev.colocation.spark.plan.FilePerTask;
import dev.colocation.spark.plan.FractionKeys;
import dev.colocation.spark.plan.InPlaceWrites;
import dev.colocation.spark.plan.LocateExecutors;
import dev.colocation.spark.plan.JoinsInPlace;
import dev.colocation.spark.plan.PaddedInFiles;
import dev.colocation.spark.plan.PartitionColumnsFirst;
import dev.colocation.spark.plan.RowsInPlace;
import dev.colocation.spark.plan.SettledPlan;
import dev.colocation.spark.plan.SkipAhead;
import dev.colocation.spark.plan.SplitBuckets;
import dev.colocation.spark.plan.TrustSortedFiles;
import dev.colocation.spark.plan.UnionsInPlace;
import dev.colocation.spark.plan.UnknownSpark;
import dev.colocation.spark.write.DistributeRows;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SparkPlan;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Adds the rules for colocated tables to a session ({@code spark.sql.extensions=dev.colocation.spark.ColocationExtensions}), in the
 * order in which they run: hint resolution and resolution rules when a query is analyzed, optimizer rules and pre-CBO rules when it is
 * optimized, planner strategies when it is planned, columnar rules before it is executed. On a Spark that lacks what a rule needs, the
 * rule leaves plans as they are ({@link UnknownSpark}).
 *
 * <p>Rules on physical plans are columnar rules, because every plan goes through these, with adaptive execution (per stage) and
 * without it, after Spark has placed exchanges and sorts and before it generates code.
 */
public final class ColocationExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    UnknownSpark.orNothing(() -> extensions.injectHintResolutionRule(session -> new TimeTravelSubqueries()));
    UnknownSpark.orNothing(() -> extensions.injectHintResolutionRule(session -> new ChangesAsFiles()));
    UnknownSpark.orNothing(() -> extensions.injectHintResolutionRule(session -> new OptionsOfReads()));
    UnknownSpark.orNothing(() -> extensions.injectHintResolutionRule(session -> new MergeStars()));
    UnknownSpark.orNothing(() -> extensions.injectHintResolutionRule(session -> new CatalogStatements()));
    UnknownSpark.orNothing(() -> extensions.injectHintResolutionRule(session -> new CheckpointsOfStreams()));
    UnknownSpark.orNothing(() -> extensions.injectResolutionRule(session -> new CatalogStatements()));
    UnknownSpark.orNothing(() -> extensions.injectResolutionRule(session -> new OptionsOfWrites()));
    if (MissingColumns.isSpark40()) {
      UnknownSpark.orNothing(() -> extensions.injectResolutionRule(session -> new MissingColumns()));
    }
    UnknownSpark.orNothing(() -> extensions.injectResolutionRule(session -> new ReadAsFiles()));
    UnknownSpark.orNothing(() -> extensions.injectResolutionRule(session -> new FilePerTask()));
    UnknownSpark.orNothing(() -> extensions.injectPostHocResolutionRule(session -> new RowChanges()));
    if (MissingColumns.isSpark40()) {
      UnknownSpark.orNothing(() -> extensions.injectPostHocResolutionRule(session -> new CheckedTexts()));
    }
    UnknownSpark.orNothing(() -> extensions.injectOptimizerRule(session -> new ChainedOuterJoins()));
    UnknownSpark.orNothing(() -> extensions.injectPreCBORule(session -> new StreamAsFiles()));
    UnknownSpark.orNothing(() -> extensions.injectPreCBORule(session -> new NewestInStreams()));
    UnknownSpark.orNothing(() -> extensions.injectPreCBORule(session -> new PaddedInFiles()));
    UnknownSpark.orNothing(() -> extensions.injectPreCBORule(session -> new PartitionColumnsFirst()));
    UnknownSpark.orNothing(() -> extensions.injectPreCBORule(session -> new PartitionConditions()));
    UnknownSpark.orNothing(() -> extensions.injectPreCBORule(session -> new DistributeRows()));
    UnknownSpark.orNothing(() -> extensions.injectPreCBORule(session -> new CommonBuckets()));
    UnknownSpark.orNothing(() -> extensions.injectPlannerStrategy(session -> new FractionKeys()));
    UnknownSpark.orNothing(() -> extensions.injectPlannerStrategy(session -> new CommonBuckets.Scans()));
    UnknownSpark.orNothing(() -> extensions.injectPlannerStrategy(session -> new RowsInPlace(session)));
    UnknownSpark.orNothing(() -> extensions.injectPlannerStrategy(session -> new JoinsInPlace(session)));
    UnknownSpark.orNothing(() -> extensions.injectPlannerStrategy(session -> new UnionsInPlace(session)));
    UnknownSpark.orNothing(() -> extensions.injectColumnar(session -> before(new LocateExecutors(session.sparkContext()))));
    UnknownSpark.orNothing(() -> extensions.injectColumnar(session -> before(new SettledPlan())));
    UnknownSpark.orNothing(() -> extensions.injectQueryStagePrepRule(session -> new InPlaceWrites()));
    UnknownSpark.orNothing(() -> extensions.injectColumnar(session -> before(new InPlaceWrites())));
    UnknownSpark.orNothing(() -> extensions.injectColumnar(session -> before(new TrustSortedFiles())));
    UnknownSpark.orNothing(() -> extensions.injectColumnar(session -> before(new SplitBuckets(session))));
    UnknownSpark.orNothing(() -> extensions.injectColumnar(session -> before(new SkipAhead())));
    return BoxedUnit.UNIT;
  }

  private static ColumnarRule before(Rule<SparkPlan> rule) {
    return new ColumnarRule() {
      @Override
      public Rule<SparkPlan> preColumnarTransitions() {
        return rule;
      }
    };
  }
}
