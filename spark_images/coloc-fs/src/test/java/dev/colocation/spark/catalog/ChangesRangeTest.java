package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import dev.colocation.spark.catalog.ChangesRange.Bound;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Snapshot;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Test;

final class ChangesRangeTest {
  private static final String TABLE = "lake.shop.orders";
  private static final Instant START = Instant.parse("2026-01-01T00:00:00Z");
  private static final Instant NOW = Instant.parse("2026-06-01T00:00:00Z");

  private static Snapshot snapshot(long id, Instant time) {
    return new Snapshot(id, "m" + id, time, JsonNodeFactory.instance.objectNode());
  }

  /** Snapshots a minute apart. */
  private static List<Snapshot> kept(long oldest, long newest) {
    List<Snapshot> found = new ArrayList<>();
    for (long id = oldest; id <= newest; id++) {
      found.add(snapshot(id, START.plus(Duration.ofMinutes(id))));
    }
    return found;
  }

  private static Bound version(String version) {
    return Bound.ofVersion(version, true);
  }

  private static Bound minute(long minute, boolean isInclusive) {
    return new Bound(null, START.plus(Duration.ofMinutes(minute)), isInclusive);
  }

  private static List<Long> ids(List<Snapshot> kept, Bound from, Bound to) {
    return new ChangesRange(from, Optional.ofNullable(to)).commits(TABLE, kept, NOW).stream().map(Snapshot::id).toList();
  }

  private static String refusal(List<Snapshot> kept, Bound from, Bound to) {
    return assertThrows(ColocationException.class, () -> ids(kept, from, to)).getMessage();
  }

  /** Wherever a history is cut, the two ranges have its commits once, also when commits have equal times or clocks were set back. */
  @Test
  void rangesThatMeetHaveEachCommitOnce() {
    Random random = new Random(7);
    for (int run = 0; run < 2000; run++) {
      List<Snapshot> kept = new ArrayList<>();
      int newest = 1 + random.nextInt(6);
      for (long id = 1; id <= newest; id++) {
        kept.add(snapshot(id, START.plus(Duration.ofMinutes(random.nextInt(6)))));
      }
      boolean isInclusive = random.nextBoolean();
      boolean isVersion = random.nextBoolean();
      long cut = random.nextInt(isVersion ? newest + 1 : 7);
      Bound end = isVersion ? Bound.ofVersion(String.valueOf(cut), isInclusive) : minute(cut, isInclusive);
      Bound begin = isVersion ? Bound.ofVersion(String.valueOf(cut), !isInclusive) : minute(cut, !isInclusive);
      List<Long> both = new ArrayList<>(ids(kept, isVersion ? version("0") : minute(0, true), end));
      both.addAll(ids(kept, begin, null));
      assertEquals(kept.stream().map(Snapshot::id).toList(), both, end + " " + kept);
    }
  }

  @Test
  void boundsAreSnapshotsThatExist() {
    assertEquals("table " + TABLE + ": CHANGES FROM VERSION '6'; allowed: 0 to 5, the table's newest snapshot",
        refusal(kept(1, 5), version("6"), null));
    assertEquals("table " + TABLE + ": CHANGES FROM VERSION '1' TO VERSION '9' EXCLUSIVE; allowed: 0 to 5, the table's newest snapshot",
        refusal(kept(1, 5), version("1"), Bound.ofVersion("9", false)));
    for (String none : List.of("", "-1", "first", "1.0", "99999999999999999999")) {
      assertTrue(refusal(kept(1, 5), version(none), null).contains("VERSION '" + none + "'; allowed: 0 to 5"));
    }
    assertTrue(refusal(List.of(), version("1"), null).contains("allowed: 0 to 0"));
    assertTrue(refusal(kept(1, 5), version("3"), version("2")).contains("allowed: a range that begins before it ends"));
    assertTrue(refusal(kept(1, 5), minute(3, true), minute(2, true)).contains("allowed: a range that begins before it ends"));
    assertTrue(refusal(kept(1, 5), new Bound(null, NOW.plusSeconds(1), true), null).contains("a time that has come; it is " + NOW));
    assertTrue(refusal(kept(1, 5), minute(3, true), new Bound(null, NOW.plusSeconds(1), true)).contains("a time that has come"));
    assertEquals(List.of(), ids(List.of(), version("0"), null));
    assertEquals(List.of(), ids(List.of(), minute(0, true), null));
  }

  /** Of a commit's rows only those are known that the snapshot before it lacks. */
  @Test
  void noCommitIsLeftOutSilently() {
    assertEquals(List.of(5L), ids(kept(4, 5), Bound.ofVersion("4", false), null));
    assertEquals(List.of(5L), ids(kept(4, 5), minute(5, true), null));
    assertEquals(List.of(5L), ids(kept(4, 5), minute(4, false), null));
    assertEquals(List.of(), ids(kept(4, 5), Bound.ofVersion("2", false), version("2")));
    for (Bound from : List.of(version("4"), version("0"), version("3"), minute(4, true), minute(0, true))) {
      assertTrue(refusal(kept(4, 5), from, null).startsWith("SnapshotExpired: table " + TABLE + ": CHANGES FROM " + from
          + "; the oldest snapshot that is kept is 4"));
    }
    assertTrue(refusal(kept(4, 5), version("1"), version("2")).startsWith("SnapshotExpired"));
    assertTrue(refusal(kept(4, 5), minute(0, true), minute(2, true)).startsWith("SnapshotExpired"));
    assertEquals(List.of(), ids(kept(1, 5), minute(0, true), minute(0, true)));
    List<Snapshot> gap = new ArrayList<>(kept(1, 5));
    gap.remove(2);
    assertTrue(refusal(gap, version("1"), null).startsWith("SnapshotExpired"));
  }
}
