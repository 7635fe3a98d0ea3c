package dev.colocation.spark.fs;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.colocation.spark.fs.AgentAddresses.AgentAddress;
import dev.colocation.spark.fs.AgentAddresses.RecentFailures;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What is known of an agent when a file is opened. */
class AgentAddressTest {
  /** Agents are sorted by it while other tasks go on learning: a sort by what changes may fail. */
  @Test
  void recentFailureIsReadOnce(@TempDir Path folder) {
    AgentAddresses known = AgentAddresses.shared(folder.resolve("ca.crt"));
    String url = "https://192.0.2.1:8440";
    AgentAddress before = new AgentAddress(known, "node-1", url, true);
    RecentFailures.OF_THIS_JVM.failed(url);
    AgentAddress after = new AgentAddress(known, "node-1", url, true);
    RecentFailures.OF_THIS_JVM.answered(url);
    assertFalse(before.failedLately());
    assertTrue(after.failedLately());
  }
}
