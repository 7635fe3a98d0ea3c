package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The changes of a statement are those after the count that was taken before it. */
class CommitLogTest {
  private static void add(int number) {
    CommitLog.add(new CommitLog.Entry("shop.orders", "append", number, 1, number, false));
  }

  private static String json(int number) {
    return "{\"table\":\"shop.orders\",\"change\":\"append\",\"rows\":" + number + ",\"files\":1,\"snapshot_id\":" + number
        + ",\"was_committed_before\":false}";
  }

  @Test
  void changesSinceACountAreListedInOrder() {
    add(1);
    long before = CommitLog.count();
    assertEquals("[]", CommitLog.since(before));
    add(2);
    add(3);
    assertEquals("[" + json(2) + "," + json(3) + "]", CommitLog.since(before));
  }

  @Test
  void aStatementThatCommitsNothingAddsNothing() {
    long before = CommitLog.count();
    CommitLog.addNothing("shop.orders", "append", 7);
    assertEquals("[{\"table\":\"shop.orders\",\"change\":\"append\",\"rows\":0,\"files\":0,\"snapshot_id\":7,"
        + "\"was_committed_before\":false}]", CommitLog.since(before));
  }

  @Test
  void newestEntriesAreKept() {
    long before = CommitLog.count();
    IntStream.rangeClosed(1, 1500).forEach(CommitLogTest::add);
    String found = CommitLog.since(before);
    assertEquals(true, found.startsWith("[" + json(501)) && found.endsWith(json(1500) + "]"));
  }
}
