package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.ObjectNode;
import com.github.luben.zstd.Zstd;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.RowCounts;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.write.Change.DropPartitions;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import dev.colocation.spark.write.Change.Rewrite;
import dev.colocation.spark.write.Change.RollBack;
import dev.colocation.spark.write.RowChange.Kind;
import dev.colocation.spark.write.RowChange.ReadTablets;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Manifests mark a CHAR column as padded only while every value of it is: joins rely on the mark. All sequences of changes are made
 * on top of files that earlier releases wrote (not padded), of padded files, and of none.
 */
class PaddedMarkTest {
  private static final int STEPS = 3;
  private static final Map<String, Integer> DECLARED = Map.of("c", 5);

  private enum Step { APPEND, OVERWRITE, OVERWRITE_PARTITION, OVERWRITE_NAMED, COMPACT, COMPACT_ONE, UPDATE, INSERT, DROP_ONE, DROP_ALL, ROLL_BACK }

  /** Which values the files have at the begin. */
  private enum Begin { NONE, UNPADDED, PADDED }

  /**
   * A committed manifest.
   *
   * @param unpadded paths of its files with values that are not padded
   */
  private record State(Optional<StoredManifest> manifest, Set<String> unpadded) {
    List<DataFile> files() {
      return manifest.map(StoredManifest::files).orElse(List.of());
    }

    boolean isMarked() {
      return manifest.map(found -> found.padded(Map.of()).equals(DECLARED)).orElse(false);
    }
  }

  private final FakeCluster cluster = new FakeCluster();
  private int loads;

  private DataFile file(String day) {
    return Files.file(String.format(Locale.ROOT, "%08x", ++loads), day);
  }

  private NewFiles load(Mode mode, String... days) {
    List<DataFile> files = new ArrayList<>();
    for (String day : days) {
      files.add(file(day));
    }
    return new NewFiles(mode, files, Buckets.asGroup(2),
        mode == Mode.OVERWRITE_MATCHING ? Optional.of(List.of(Files.day("a"))) : Optional.empty());
  }

  private static StoredManifest decoded(byte[] stored) {
    try {
      return StoredManifest.decode(stored, StoredManifest.sha256(stored));
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  private StoredManifest next(Optional<StoredManifest> parent, Change change) {
    return decoded(NextManifest.of(cluster.state(), parent, change).stored());
  }

  private void declare() {
    cluster.spec().withArray("columns").addObject().put("name", "c").put("type", "char(5)");
  }

  private State begin(Begin begin) {
    if (begin == Begin.NONE) {
      return new State(Optional.empty(), Set.of());
    }
    byte[] stored = NextManifest.of(cluster.state(), Optional.empty(), load(Mode.APPEND, "a", "b")).stored();
    StoredManifest padded = decoded(stored);
    if (begin == Begin.PADDED) {
      return new State(Optional.of(padded), Set.of());
    }
    String text = new String(Zstd.decompress(stored, 1 << 20), StandardCharsets.UTF_8);
    byte[] byEarlierRelease = Zstd.compress(text.replace("\"padded\":{\"c\":5},", "").getBytes(StandardCharsets.UTF_8));
    return new State(Optional.of(decoded(byEarlierRelease)), Set.copyOf(paths(padded.files())));
  }

  private static Set<String> paths(List<DataFile> files) {
    return files.stream().map(DataFile::path).collect(Collectors.toCollection(TreeSet::new));
  }

  private Change change(Step step, State before, State first) {
    Set<String> one = paths(before.files().stream().limit(1).toList());
    return switch (step) {
      case APPEND -> load(Mode.APPEND, "a");
      case OVERWRITE -> load(Mode.OVERWRITE, "a", "b");
      case OVERWRITE_PARTITION -> load(Mode.OVERWRITE_PARTITIONS, "a");
      case OVERWRITE_NAMED -> load(Mode.OVERWRITE_MATCHING, "a");
      case COMPACT -> new Rewrite(paths(before.files()), List.of(file("a")), Buckets.asGroup(2));
      case COMPACT_ONE -> new Rewrite(one, List.of(file("a")), Buckets.asGroup(2));
      case UPDATE -> new RowChange(
          Kind.UPDATE, one, List.of(file("a")), Buckets.asGroup(2), ReadTablets.ALL, new RowCounts(0, 1, 0));
      case INSERT -> new RowChange(
          Kind.MERGE, Set.of(), List.of(file("a")), Buckets.asGroup(2), ReadTablets.ALL, new RowCounts(10, 0, 0));
      case DROP_ONE -> new DropPartitions(List.of(Files.day("a")));
      case DROP_ALL -> new DropPartitions(List.of(Map.of()));
      case ROLL_BACK -> RollBack.of(
          cluster.state(), Snapshot.of(snapshot()), first.manifest().orElseThrow(), before.manifest().orElseThrow());
    };
  }

  private static ObjectNode snapshot() {
    return CommitTest.snapshot(1, "2026-11-21T04:00:00Z");
  }

  /** Files that hold values that are not padded after a step: those of before, and those into which they were copied. */
  private static Set<String> unpadded(Step step, Change change, State before, State first) {
    Set<String> found = new TreeSet<>(step == Step.ROLL_BACK ? first.unpadded() : before.unpadded());
    Set<String> read = change instanceof Rewrite compaction ? compaction.replaced()
        : change instanceof RowChange rows ? rows.replaced() : Set.of();
    if (read.stream().anyMatch(before.unpadded()::contains)) {
      found.addAll(paths(change.files()));
    }
    return found;
  }

  private State after(Step step, State before, State first, String path) {
    Change change = change(step, before, first);
    StoredManifest manifest = next(before.manifest(), change);
    Set<String> unpadded = unpadded(step, change, before, first);
    unpadded.retainAll(paths(manifest.files()));
    State after = new State(Optional.of(manifest), unpadded);
    assertTrue(unpadded.isEmpty() || !after.isMarked(), () -> path + ": marked, but not padded are " + unpadded);
    boolean hasNewRowsOnly = paths(change.files()).equals(paths(manifest.files())) && !change.files().isEmpty()
        && (change instanceof NewFiles || step == Step.INSERT);
    boolean wasMarked = (step == Step.ROLL_BACK ? first : before).isMarked();
    assertEquals(hasNewRowsOnly || wasMarked, after.isMarked(), path);
    return after;
  }

  private void explore(State before, State first, int steps, String path) {
    if (steps == 0) {
      return;
    }
    for (Step step : Step.values()) {
      boolean needsFiles = step == Step.COMPACT || step == Step.COMPACT_ONE || step == Step.UPDATE;
      boolean isPossible = needsFiles ? !before.files().isEmpty()
          : step == Step.ROLL_BACK ? first.manifest().isPresent() && before != first
          : before.manifest().isPresent() || step != Step.DROP_ONE && step != Step.DROP_ALL;
      if (isPossible) {
        explore(after(step, before, first, path + " " + step), first, steps - 1, path + " " + step);
      }
    }
  }

  @ParameterizedTest
  @EnumSource(Begin.class)
  void aColumnIsMarkedWhileAllItsValuesArePadded(Begin begin) {
    declare();
    State first = begin(begin);
    assertEquals(begin == Begin.PADDED, first.isMarked());
    explore(first, first, STEPS, begin.toString());
  }

  /** A column that was added after all files were written is NULL there; one that files have without a mark is not padded. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aColumnThatFilesLackIsPadded(boolean isAddedLater) {
    if (!isAddedLater) {
      declare();
    }
    State first = begin(Begin.UNPADDED);
    if (isAddedLater) {
      declare();
    }
    assertEquals(isAddedLater, new State(Optional.of(next(first.manifest(), load(Mode.APPEND, "a"))), Set.of()).isMarked());
  }
}
