package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.write.Compaction.AfterWrite;
import dev.colocation.spark.write.Compaction.AfterWrite.Outcome;
import dev.colocation.spark.write.Compaction.Result;
import dev.colocation.spark.write.WriteTarget.Compactor;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** The compaction after a committed write never fails the write. */
final class AfterWriteTest {
  private static final Result MERGED = new Result(1, 5, 1, 100, 1000, 7, 0);

  private final FakeCluster cluster = new FakeCluster();

  private Outcome after(Compactor compaction) {
    WriteTarget target = new WriteTarget("lake.shop.orders", cluster, "shop", "orders", FakeCluster.UID, 0, "", Map.of(),
        Duration.ZERO, compaction, Optional.empty());
    return AfterWrite.after(target, cluster.state());
  }

  private void enable() {
    cluster.spec().putObject("compaction").put("enabled", true).put("maxFilesPerBucket", 3);
  }

  @Test
  void onlyWhereTheTableAsks() {
    assertEquals(Outcome.NONE, after(mostFiles -> MERGED));
    enable();
    assertEquals(new Outcome(MERGED, ""), after(mostFiles -> mostFiles == 3 ? MERGED : null));
    assertEquals(Outcome.NONE, after(mostFiles -> Result.nothing(7)));
  }

  /** In one line, with the type of errors that are not ours, and of long messages the beginning. */
  @Test
  void aFailureIsInTheResult() {
    enable();
    Map<Exception, String> failures = Map.of(
        new WriteException.NotReady("no agent\n  is ready"), "NotReady: no agent is ready",
        new IOException("disk full"), "IOException: disk full",
        new IllegalStateException(), "IllegalStateException: null",
        new IOException("x".repeat(501)), "IOException: " + "x".repeat(500));
    failures.forEach((failure, said) -> assertEquals(new Outcome(null, said), after(mostFiles -> {
      throw failure;
    })));
    assertEquals(new Outcome(null, "NoSuchMethodError: of another Spark"), after(mostFiles -> {
      throw new NoSuchMethodError("of another Spark");
    }));
  }
}
