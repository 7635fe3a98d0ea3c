package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Files of partitions that alternate stay within memory, and none ends without need. */
class OpenFilesTest {
  private static final long MOST_BYTES = 50_000;

  private static final class Written {
    private long bytes;

    long bytes() {
      return bytes;
    }
  }

  private final List<Written> ended = new ArrayList<>();
  private final OpenFiles<Integer, Written> open = new OpenFiles<>(Written::bytes, ended::add);

  private Written write(int key, long bytes) throws IOException {
    if (open.get(key) == null) {
      open.add(key, new Written());
    }
    open.get(key).bytes += bytes;
    return open.get(key);
  }

  private long count() {
    return open.sum(one -> 1);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7, 8})
  void filesStayWithinTheBounds(int seed) throws IOException {
    Random random = new Random(seed);
    int keys = seed % 2 == 0 ? 3 : 130;
    int mostRowBytes = 30 << seed; // a few thousand rows fill the memory, or a few
    Set<Written> all = new HashSet<>();
    long rowBytes = 0;
    long weighed = 0;
    for (int turn = 0; turn < 20_000; turn++) {
      boolean isDue = rowBytes - weighed >= MOST_BYTES / OpenFiles.SHARE_BETWEEN_WEIGHINGS;
      weighed = isDue ? rowBytes : weighed;
      int before = ended.size();
      open.weigh(rowBytes, MOST_BYTES);
      for (Written one : ended.subList(before, ended.size())) {
        assertTrue(isDue && one.bytes + open.sum(Written::bytes) > MOST_BYTES, "it had to end");
        assertTrue(open.sum(left -> left.bytes > one.bytes ? 1 : 0) == 0, "larger ones end first");
      }
      before = ended.size();
      long there = count();
      int key = random.nextInt(keys);
      boolean isNew = open.get(key) == null;
      int bytes = random.nextInt(mostRowBytes);
      all.add(write(key, bytes));
      rowBytes += bytes;
      assertTrue(count() == 1 || open.sum(Written::bytes) <= MOST_BYTES + MOST_BYTES / OpenFiles.SHARE_BETWEEN_WEIGHINGS + mostRowBytes,
          "they fit in memory at any time, but for an eighth and a row");
      assertEquals(isNew && there == OpenFiles.MOST ? 1 : 0, ended.size() - before, "one makes room");
      assertTrue(count() <= OpenFiles.MOST);
    }
    open.endAll();
    assertEquals(all, new HashSet<>(ended));
    assertEquals(all.size(), ended.size(), "each ends once");
    assertEquals(0, count());
  }

  @Test
  void aSingleFileMayBeLarger() throws IOException {
    Written one = write(1, MOST_BYTES + 1);
    open.weigh(MOST_BYTES + 1, MOST_BYTES);
    assertNotNull(open.get(1));
    open.end(1);
    assertEquals(List.of(one), ended);
  }

  @Test
  void filesThatAreGivenUpDoNotEnd() throws IOException {
    Set<Written> all = Set.of(write(1, 1), write(2, 1));
    Set<Written> abandoned = new HashSet<>();
    open.abandon(abandoned::add);
    open.endAll();
    assertEquals(all, abandoned);
    assertEquals(List.of(), ended);
  }
}
