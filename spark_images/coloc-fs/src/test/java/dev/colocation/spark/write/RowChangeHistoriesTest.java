package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.FakeTimer;
import dev.colocation.spark.cluster.RowCounts;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.WriteException.CommitUnknown;
import dev.colocation.spark.cluster.WriteException.LoadConflict;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import dev.colocation.spark.write.Change.Rewrite;
import dev.colocation.spark.write.RowChange.Kind;
import dev.colocation.spark.write.RowChange.ReadTablets;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Random histories of statements that begin and commit in any order, with lost answers, killed drivers and repetitions: each
 * snapshot has the rows that its statement makes of the snapshot before it, and no statement fails without a reason.
 */
class RowChangeHistoriesTest {
  private static final int STEPS = 60;
  private static final List<String> DAYS = List.of("a", "b");
  private static final int BUCKETS = 2;
  private static final int KEYS = 6;

  /** A row of the table; its bucket follows from its key. */
  private record Row(String day, int key, int value) {
    int bucket() {
      return key % BUCKETS;
    }

    String tablet() {
      return day + bucket();
    }
  }

  /**
   * What a statement does with the rows of the tablets that it reads.
   *
   * @param change makes each row another one, the same, or null
   * @param merged a row that is inserted when none of the tablets' rows has its day and key; null = none
   */
  private record Statement(
      String name, ReadTablets read, UnaryOperator<Row> change, Row merged, List<Row> loaded, boolean deletesRead) {
    boolean reads(String day, int bucket) {
      return read.contains(Files.file("00000000", day, bucket));
    }

    boolean inserts(List<Row> seen) {
      return merged != null && seen.stream().noneMatch(row -> row.day().equals(merged.day()) && row.key() == merged.key());
    }

    /** All rows after the statement, if nothing else runs. */
    List<Row> alone(List<Row> rows) {
      List<Row> seen = rows.stream().filter(row -> reads(row.day(), row.bucket())).toList();
      List<Row> after = new ArrayList<>(rows.stream().filter(row -> !reads(row.day(), row.bucket())).toList());
      if (!deletesRead) {
        seen.stream().map(change).filter(row -> row != null).forEach(after::add);
      }
      if (inserts(seen)) {
        after.add(merged);
      }
      after.addAll(loaded);
      return after;
    }
  }

  /** A statement that has computed its files. */
  private record Begun(Statement statement, ColocatedTable on, Change change, Optional<CommitKey> key) {}

  private final FakeCluster cluster = new FakeCluster();
  private final ManifestMemory storage = new ManifestMemory();
  private final Map<String, List<Row>> contents = new HashMap<>();
  private final Map<Long, Begun> committed = new TreeMap<>();
  private final List<Begun> begun = new ArrayList<>();
  private int files;
  private int fresh = 1000;
  private int keys;

  static IntStream seeds() {
    return IntStream.range(0, 200);
  }

  @ParameterizedTest
  @MethodSource("seeds")
  void everySnapshotIsASerialStep(int seed) throws IOException {
    Random random = new Random(seed);
    cluster.spec().putObject("retention").put("snapshots", 100);
    for (int step = 0; step < STEPS; step++) {
      if (begun.isEmpty() || random.nextInt(3) > 0 && begun.size() < 4) {
        begun.add(begin(statement(random), key(random)));
      } else if (random.nextInt(12) == 0) {
        take(random); // its driver was killed
      } else {
        disturb(random);
        commit(take(random), true);
        cluster.writes.clear();
      }
    }
    checkStory();
  }

  private Begun take(Random random) {
    return begun.remove(random.nextInt(begun.size()));
  }

  private Optional<CommitKey> key(Random random) {
    return random.nextBoolean() ? Optional.of(new CommitKey("writer-" + keys++, 0)) : Optional.empty();
  }

  /** Another statement may commit before the write; answers may be lost. */
  private void disturb(Random random) {
    if (random.nextInt(3) == 0 && begun.size() > 1) {
      Begun other = take(random);
      cluster.beforeWrite = () -> commit(other, true);
    }
    FakeCluster.Fate[] fates = FakeCluster.Fate.values();
    IntStream.range(0, random.nextInt(3)).forEach(one -> cluster.writes.add(fates[random.nextInt(fates.length)]));
  }

  private Statement statement(Random random) {
    String day = DAYS.get(random.nextInt(DAYS.size()));
    int key = random.nextInt(KEYS);
    Row row = new Row(day, key, 1);
    ReadTablets tablet = new ReadTablets(Set.of(key % BUCKETS), List.of(Files.day(day)));
    ReadTablets bucket = new ReadTablets(Set.of(key % BUCKETS), List.of());
    ReadTablets partition = new ReadTablets(Set.of(), List.of(Files.day(day)));
    UnaryOperator<Row> increment = one -> new Row(one.day(), one.key(), one.value() + 1);
    return switch (random.nextInt(9)) {
      case 0 -> rows("append", ReadTablets.ALL, one -> one, null, List.of(new Row(day, fresh++, 0), new Row("a", fresh++, 0)), false);
      case 1 -> rows("overwrite-partitions", partition, one -> one, null, List.of(new Row(day, fresh++, 0)), true);
      case 2 -> rows("compact", tablet, one -> one, null, List.of(), false);
      case 3 -> rows("update", bucket, one -> one.key() == key ? increment.apply(one) : one, null, List.of(), false);
      case 4 -> rows("delete", partition, one -> one.value() % 2 == 1 ? null : one, null, List.of(), false);
      case 5 -> rows("merge", tablet, one -> isSame(one, row) ? increment.apply(one) : one, row, List.of(), false);
      case 6 -> rows("merge", tablet, one -> one, row, List.of(), false);
      case 7 -> rows("update", tablet, one -> new Row(one.day().equals("a") ? "b" : "a", fresh++, one.value()), null, List.of(), false);
      default -> rows("delete", ReadTablets.ALL, one -> one.key() == key ? null : one, null, List.of(), false);
    };
  }

  private static Statement rows(
      String name, ReadTablets read, UnaryOperator<Row> change, Row merged, List<Row> loaded, boolean deletesRead) {
    Map<Row, Row> remembered = new HashMap<>();
    return new Statement(name, read, one -> remembered.computeIfAbsent(one, change), merged, loaded, deletesRead);
  }

  private static boolean isSame(Row one, Row other) {
    return one.day().equals(other.day()) && one.key() == other.key();
  }

  // Statements over files

  private Begun begin(Statement statement, Optional<CommitKey> key) throws IOException {
    ColocatedTable on = cluster.state();
    List<DataFile> committedFiles = on.snapshot().isEmpty() ? List.of() : storage.read(on.snapshot().get().manifestSha256()).files();
    List<DataFile> read = committedFiles.stream().filter(statement.read()::contains).toList();
    Change change = switch (statement.name()) {
      case "append" -> new NewFiles(Mode.APPEND, written(statement.loaded()), Buckets.asGroup(BUCKETS));
      case "overwrite-partitions" -> new NewFiles(Mode.OVERWRITE_PARTITIONS, written(statement.loaded()), Buckets.asGroup(BUCKETS));
      case "compact" -> new Rewrite(paths(read), written(read.stream().flatMap(this::rowsOf).toList()), Buckets.asGroup(BUCKETS));
      default -> rowChange(statement, read);
    };
    return new Begun(statement, on, change, key);
  }

  private RowChange rowChange(Statement statement, List<DataFile> read) {
    Set<String> replaced = new HashSet<>();
    List<Row> after = new ArrayList<>();
    RowCounts counts = RowCounts.NONE;
    for (DataFile file : read) {
      List<Row> before = contents.get(file.path());
      if (before.stream().allMatch(row -> row.equals(statement.change().apply(row)))) {
        continue;
      }
      replaced.add(file.path());
      for (Row row : before) {
        Row changed = statement.change().apply(row);
        boolean isDeleted = changed == null;
        counts = counts.plus(new RowCounts(0, isDeleted || changed.equals(row) ? 0 : 1, isDeleted ? 1 : 0));
        Optional.ofNullable(changed).ifPresent(after::add);
      }
    }
    if (statement.inserts(read.stream().flatMap(this::rowsOf).toList())) {
      after.add(statement.merged());
      counts = counts.plus(new RowCounts(1, 0, 0));
    }
    Kind kind = Kind.valueOf(statement.name().toUpperCase(Locale.ROOT));
    return new RowChange(kind, replaced, written(after), Buckets.asGroup(BUCKETS), statement.read(), counts);
  }

  private Stream<Row> rowsOf(DataFile file) {
    return contents.get(file.path()).stream();
  }

  /** One new file per tablet. */
  private List<DataFile> written(List<Row> rows) {
    Map<String, List<Row>> tablets = rows.stream().collect(Collectors.groupingBy(Row::tablet, TreeMap::new, Collectors.toList()));
    List<DataFile> written = new ArrayList<>();
    tablets.values().forEach(tablet -> {
      DataFile named = Files.file(String.format(Locale.ROOT, "%08x", files++), tablet.get(0).day(), tablet.get(0).bucket());
      written.add(new DataFile(named.path(), named.bucket(), named.partition(), tablet.size(), 100, named.sha256(), KeyRange.NONE));
      contents.put(named.path(), tablet);
    });
    return written;
  }

  private static Set<String> paths(List<DataFile> found) {
    return found.stream().map(DataFile::path).collect(Collectors.toSet());
  }

  // Commits

  private void commit(Begun one, boolean mayRunAgain) {
    try {
      CommitResult result = new Commit(
          new Cluster(cluster, new FakeTimer()), storage, one.change(), one.key(), one.on(), new FakeTimer()).run(cluster.state());
      assertEquals(null, committed.put(result.snapshotId(), one), "a snapshot has two statements");
      if (one.key().isPresent() && mayRunAgain) {
        repeat(one, result.snapshotId());
      }
    } catch (LoadConflict conflict) {
      assertTrue(wasOvertaken(one), one.statement().name() + ": " + conflict.getMessage());
    } catch (CommitUnknown unknown) {
      throw new AssertionError("every read is answered", unknown);
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The driver was killed after its commit; its statement is started again with the same key, and computes other files. */
  private void repeat(Begun one, long snapshotId) throws IOException {
    long before = cluster.state().snapshotId();
    Begun again = begin(one.statement(), one.key());
    CommitResult result = new Commit(new Cluster(cluster, new FakeTimer()), storage, again.change(), again.key(), again.on(),
        new FakeTimer()).run(cluster.state());
    assertTrue(result.wasCommittedBefore());
    assertEquals(List.of(snapshotId, before), List.of(result.snapshotId(), cluster.state().snapshotId()));
  }

  /** Whether a commit since the statement began changed rows of a tablet that it read, or files that it replaces. */
  private boolean wasOvertaken(Begun one) {
    assertFalse(one.statement().name().equals("append"), "appends go on top of everything");
    return committed.entrySet().stream().filter(later -> later.getKey() > one.on().snapshotId()).anyMatch(later -> {
      if (later.getValue().change() instanceof Rewrite compaction) {
        return !Collections.disjoint(compaction.replaced(), replaced(one.change()));
      }
      Set<String> touched = new HashSet<>();
      later.getValue().change().files().forEach(file -> touched.add(tablet(file.path())));
      if (later.getValue().change() instanceof RowChange change) {
        change.replaced().forEach(path -> touched.add(tablet(path)));
      } else if (later.getValue().statement().deletesRead()) {
        return true;
      }
      return touched.stream().anyMatch(tablet -> one.statement().reads(tablet.substring(0, 1), tablet.charAt(1) - '0'));
    });
  }

  private static Set<String> replaced(Change change) {
    return change instanceof RowChange rows ? rows.replaced() : change instanceof Rewrite other ? other.replaced() : Set.of();
  }

  private String tablet(String path) {
    return contents.get(path).get(0).tablet();
  }

  // Checks

  private void checkStory() throws IOException {
    List<Row> before = List.of();
    List<Snapshot> story = cluster.state().snapshots().stream().sorted(Comparator.comparingLong(Snapshot::id)).toList();
    assertEquals(story.stream().map(Snapshot::id).toList(), List.copyOf(committed.keySet()), "one snapshot per commit");
    for (Snapshot snapshot : story) {
      Begun one = committed.get(snapshot.id());
      List<Row> now = storage.read(snapshot.manifestSha256()).files().stream().flatMap(this::rowsOf).toList();
      assertEquals(sorted(one.statement().alone(before)), sorted(now), "snapshot " + snapshot.id() + " by " + one.statement().name());
      Set<String> unique = now.stream().map(row -> row.day() + row.key()).collect(Collectors.toSet());
      assertEquals(unique.size(), now.size(), "a key is there twice");
      before = now;
    }
  }

  private static List<Row> sorted(List<Row> rows) {
    return rows.stream().sorted(Comparator.comparing(Row::day).thenComparing(Row::key).thenComparing(Row::value)).toList();
  }
}
