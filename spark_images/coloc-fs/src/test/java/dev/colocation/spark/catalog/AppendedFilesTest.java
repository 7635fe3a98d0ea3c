package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.colocation.spark.Contract;
import dev.colocation.spark.catalog.StreamOffset.Position;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Snapshot;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.SortedMap;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

final class AppendedFilesTest {
  private static final String TABLE = "lake.shop.orders";

  /** A table that tells which file came by which append. */
  private static final class Story {
    private final Random random;
    private final List<Snapshot> snapshots = new ArrayList<>();
    private final Map<String, SortedMap<String, Long>> files = new HashMap<>();
    private final List<String> appended = new ArrayList<>();
    private SortedMap<String, Long> now = new TreeMap<>();
    private int made;

    Story(long seed) {
      random = new Random(seed);
    }

    private String newFile() {
      String name = "data/" + random.nextInt(100) + "-" + made++ + "_00000.parquet";
      now.put(name, 1L + random.nextInt(10));
      return name;
    }

    void commit(String operation) {
      now = new TreeMap<>(now);
      if (operation.equals("compact") || operation.equals("overwrite")) {
        List.copyOf(now.keySet()).stream().filter(file -> random.nextBoolean()).forEach(now::remove);
      }
      for (int count = random.nextInt(4); count > 0; count--) {
        String file = newFile();
        if (operation.equals("append")) {
          appended.add(file);
        }
      }
      long id = snapshots.size() + 1L;
      String manifest = operation + id;
      files.put(manifest, now);
      snapshots.add(new Snapshot(
          id, manifest, Instant.parse("2026-01-01T00:00:00Z"), Contract.JSON.createObjectNode().put("operation", operation)));
    }

    AppendedFiles read(boolean skipsChanges) {
      return new AppendedFiles(TABLE, List.copyOf(snapshots), snapshot -> files.get(snapshot.manifestSha256()), skipsChanges);
    }

    void checkReadable(AppendedFiles.Batch batch) {
      if (!batch.paths().isEmpty()) {
        SortedMap<String, Long> there = files.get(batch.end().manifest());
        assertTrue(there.keySet().containsAll(batch.paths()));
        assertEquals(batch.paths().stream().mapToLong(there::get).sum(), batch.bytes());
      }
    }
  }

  private static AppendedFiles.Share atMost(int most) {
    int[] left = {most};
    return (snapshot, behind, files) -> {
      int count = Math.min(left[0], files.size());
      left[0] -= count;
      return count;
    };
  }

  /** Batches of any size, planned again after any end, while appends and compactions go on: each file once, in its order. */
  @Test
  void everyAppendedFileIsReadOnce() {
    for (int seed = 0; seed < 300; seed++) {
      Story story = new Story(seed);
      List<String> read = new ArrayList<>();
      Position at = Position.BEFORE_ALL;
      for (int step = 0; step < 40; step++) {
        if (story.random.nextBoolean()) {
          story.commit(story.random.nextInt(3) == 0 ? "compact" : "append");
        }
        AppendedFiles.Batch batch = story.read(false).after(at, atMost(1 + story.random.nextInt(4)));
        AppendedFiles.Batch again = story.read(false).between(at, StreamOffset.parse(
            StreamOffset.begin("shop/orders-1").to(at, batch.end()).json()).position().orElseThrow());
        assertEquals(batch, again);
        story.checkReadable(batch);
        read.addAll(batch.paths());
        at = batch.end();
      }
      // A batch ends before a compaction, with what it has.
      for (AppendedFiles.Batch rest = null; rest == null || !rest.end().equals(at);) {
        at = rest == null ? at : rest.end();
        rest = story.read(false).after(at, AppendedFiles.Share.ALL);
        read.addAll(rest.paths());
      }
      assertEquals(story.appended.stream().sorted().toList(), read.stream().sorted().toList(), "seed " + seed);
    }
  }

  /** A whole snapshot in parts, then what follows it. */
  @Test
  void wholeSnapshotInParts() {
    Story story = new Story(7);
    for (int count = 0; count < 6; count++) {
      story.commit("append");
    }
    Snapshot newest = story.snapshots.get(5);
    List<String> read = new ArrayList<>();
    Position at = new Position(6, newest.manifestSha256(), 0, true);
    story.commit("append");
    while (!at.equals(Position.after(story.snapshots.get(6)))) {
      AppendedFiles.Batch batch = story.read(false).after(at, atMost(2));
      assertEquals(batch, story.read(false).between(at, batch.end()));
      read.addAll(batch.paths());
      at = batch.end();
    }
    assertEquals(story.now.keySet().stream().toList(), read.stream().sorted().toList());
    assertEquals(read.size(), read.stream().distinct().count());
  }

  /** A change is no append: what came before it is read, then it is refused, or passed over with what it adds. */
  @Test
  void changesAreRefusedOrSkipped() {
    Story story = new Story(3);
    for (int count = 0; count < 4; count++) {
      story.commit("append");
    }
    List<String> before = List.copyOf(story.appended);
    story.commit("overwrite");
    story.commit("append");
    AppendedFiles.Batch first = story.read(false).after(Position.BEFORE_ALL, AppendedFiles.Share.ALL);
    assertEquals(before.stream().sorted().toList(), first.paths().stream().sorted().toList());
    Exception error = assertThrows(Exception.class, () -> story.read(false).after(first.end(), AppendedFiles.Share.ALL));
    assertTrue(error.getMessage().contains("NotAnAppend: snapshot 5 of table lake.shop.orders (overwrite)"), error.getMessage());
    List<String> after = story.appended.subList(before.size(), story.appended.size());
    assertEquals(after.stream().sorted().toList(),
        story.read(true).after(first.end(), AppendedFiles.Share.ALL).paths().stream().sorted().toList());
  }

  /** Snapshots that are gone, or are others by now, end the stream. */
  @Test
  void noRowIsSkipped() {
    Story story = new Story(5);
    for (int count = 0; count < 4; count++) {
      story.commit("append");
    }
    Position second = Position.after(story.snapshots.get(1));
    int all = story.files.get("append2").size() - story.files.get("append1").size();
    ColocationException other = assertThrows(ColocationException.class,
        () -> story.read(true).between(Position.BEFORE_ALL, new Position(2, "append2", all, false)));
    assertTrue(other.getMessage().contains("has other commits than when the micro-batch was planned"), other.getMessage());
    story.snapshots.subList(0, 2).clear();
    for (Position at : List.of(second, Position.BEFORE_ALL, new Position(3, "another", StreamOffset.ALL, false),
        new Position(3, "append3", 0, false), new Position(9, "append9", StreamOffset.ALL, false))) {
      assertThrows(ColocationException.class, () -> story.read(true).after(at, AppendedFiles.Share.ALL), at.toString());
    }
    ColocationException gone = assertThrows(ColocationException.class, () -> story.read(true).between(
        Position.after(story.snapshots.get(0)), new Position(9, "append9", StreamOffset.ALL, false)));
    assertTrue(gone.getMessage().startsWith("SnapshotExpired"), gone.getMessage());
  }
}
