package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.colocation.spark.catalog.ReadDecision.Verdict;
import dev.colocation.spark.cluster.ColocationGroup;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** The word in metrics follows the reason in the log. */
final class VerdictTest {
  private static final ReadDecision.Switches USUAL =
      new ReadDecision.Switches(false, false, ReadDecision.WhenUnstable.LIVE);

  private static Verdict verdict(ReadDecision.Switches switches, Optional<ColocationGroup> group, String refusal) {
    return Verdict.of(ReadDecision.decide(switches, group, refusal, "", "", Set.of()));
  }

  @Test
  void bucketedReadIsColocatedWithAnyNote() {
    assertEquals(Verdict.COLOCATED, Verdict.of(new ReadDecision(true, "", "group is not stable: NodeNotReady")));
  }

  @Test
  void noGroup() {
    assertEquals(Verdict.NO_GROUP, verdict(USUAL, Optional.empty(), ""));
  }

  @Test
  void disabledBySession() {
    ReadDecision.Switches off = new ReadDecision.Switches(true, false, ReadDecision.WhenUnstable.LIVE);
    assertEquals(Verdict.DISABLED, verdict(off, Optional.empty(), ""));
  }

  @Test
  void otherReasonsByTheirPrefix() {
    assertEquals(Verdict.NOT_STABLE, Verdict.of(new ReadDecision(false, "group is not stable: NodeGone; 5 buckets", "")));
    assertEquals(
        Verdict.OPERATOR_SILENT,
        Verdict.of(new ReadDecision(false, "group is not stable: OperatorSilent: since noon", "")));
    assertEquals(
        Verdict.INCONSISTENT,
        Verdict.of(new ReadDecision(false, "Inconsistent distribution of table and queries: 4 buckets", "")));
  }
}
