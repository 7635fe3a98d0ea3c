package dev.colocation.spark;

import dev.colocation.spark.catalog.ReadAsFiles;
import dev.colocation.spark.write.DistributeRows;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SparkPlan;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * What a session learns of colocated tables ({@code spark.sql.extensions=dev.colocation.spark.ColocationExtensions}): {@link
 * ReadAsFiles} when a query is analyzed, {@link PartitionColumnsFirst} and {@link DistributeRows} when it is optimized, {@link TrustSortedFiles} when its plan is to be
 * executed.
 *
 * <p>The latter is a columnar rule, because that is the one place through which every plan goes, with adaptive execution (per stage) and
 * without it, after Spark has settled distributions and sorts and before it generates code.
 */
public final class ColocationExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectResolutionRule(session -> new ReadAsFiles());
    extensions.injectPreCBORule(session -> new PartitionColumnsFirst());
    extensions.injectPreCBORule(session -> new DistributeRows());
    extensions.injectColumnar(session -> new SortedFilesRule());
    return BoxedUnit.UNIT;
  }

  private static final class SortedFilesRule extends ColumnarRule {
    private final Rule<SparkPlan> rule = new TrustSortedFiles();

    @Override
    public Rule<SparkPlan> preColumnarTransitions() {
      return rule;
    }
  }
}
