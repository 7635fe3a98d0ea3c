package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import dev.colocation.spark.cluster.Cluster;
import dev.colocation.spark.cluster.Cluster.NoAnswer;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.FakeTimer;
import dev.colocation.spark.cluster.KubernetesApi.Answer;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import dev.colocation.spark.write.Transaction.CommitResult;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Two writers at once, whatever the order in which the API server hears them and whichever answers are lost: every change that is
 * said to be committed is in the table's story once, every other one is not, and none removes rows that it has not seen.
 */
class InterleavingTest {
  private static final int CHANGES = 4;
  private static final List<Mode> MODES =
      List.of(Mode.APPEND, Mode.APPEND, Mode.OVERWRITE_PARTITIONS, Mode.OVERWRITE_MATCHING, Mode.OVERWRITE);

  /** A change that was committed by its writer's result. */
  private record Done(NewFiles change, long beganOn) {}

  /** Lets one writer at a time speak with the API server: by chance, but only after all others wait too. */
  private static final class Turns {
    private final Random random;
    private final Set<String> working;
    private final Set<String> waiting = new HashSet<>();
    private String next = "";

    Turns(Random random, Set<String> writers) {
      this.random = random;
      working = new HashSet<>(writers);
    }

    synchronized void await(String writer) {
      waiting.add(writer);
      choose();
      try {
        while (!next.equals(writer)) {
          wait();
        }
      } catch (InterruptedException error) {
        throw new IllegalStateException(error);
      }
      next = "";
      waiting.remove(writer);
    }

    synchronized void end(String writer) {
      working.remove(writer);
      choose();
    }

    private void choose() {
      if (next.isEmpty() && !waiting.isEmpty() && waiting.equals(working)) {
        List<String> sorted = waiting.stream().sorted().toList();
        next = sorted.get(random.nextInt(sorted.size()));
        notifyAll();
      }
    }
  }

  static IntStream seeds() {
    return IntStream.range(0, 60);
  }

  @ParameterizedTest
  @MethodSource("seeds")
  void noRowIsLostOrDuplicated(int seed) throws Exception {
    Random random = new Random(seed);
    FakeCluster cluster = new FakeCluster();
    cluster.spec().putObject("retention").put("snapshots", 100);
    List<FakeCluster.Fate> fates = List.of(FakeCluster.Fate.values());
    random.ints(12, 0, 2 * fates.size()).forEach(
        one -> cluster.writes.add(fates.get(Math.max(one - fates.size(), 0))));
    ManifestMemory storage = new ManifestMemory();
    Commit.Storage shared = shared(storage);
    Turns turns = new Turns(random, Set.of("one", "two"));
    List<Done> done = Collections.synchronizedList(new ArrayList<>());
    List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
    List<Thread> writers = new ArrayList<>();
    for (String writer : List.of("one", "two")) {
      Random own = new Random(random.nextLong());
      Cluster.Requests api = (method, path, body) -> heard(cluster, turns, writer, method, path, body);
      Thread thread = new Thread(() -> {
        try {
          write(writer, new Cluster(api, new FakeTimer()), shared, own, done);
        } catch (IOException | NoAnswer | RuntimeException | AssertionError error) {
          failures.add(error);
        } finally {
          turns.end(writer);
        }
      });
      writers.add(thread);
      thread.start();
    }
    for (Thread thread : writers) {
      thread.join();
    }
    assertEquals(List.of(), failures);
    checkStory(cluster, shared, done);
  }

  private static Answer heard(
      FakeCluster cluster, Turns turns, String writer, String method, String path, JsonNode body) {
    turns.await(writer);
    return cluster.sendOnce(method, path, body);
  }

  private static Commit.Storage shared(ManifestMemory storage) {
    return new Commit.Storage() {
      @Override
      public synchronized StoredManifest read(String sha256) throws IOException {
        return storage.read(sha256);
      }

      @Override
      public synchronized Publication.Published publish(NextManifest manifest) throws IOException {
        return storage.publish(manifest);
      }
    };
  }

  /** Commits some changes, each by a key, one after the other; a change that lost is left, one that is not known is repeated. */
  private static void write(String writer, Cluster cluster, Commit.Storage storage, Random random, List<Done> done)
      throws IOException, NoAnswer {
    for (int version = 0; version < CHANGES; version++) {
      NewFiles change = change(writer + version, random);
      ColocatedTable began = read(cluster);
      Optional<CommitKey> key = random.nextBoolean() ? Optional.of(new CommitKey(writer, version)) : Optional.empty();
      try {
        CommitResult result = new Commit(cluster, storage, change, key, began, new FakeTimer()).run(read(cluster));
        done.add(new Done(change, began.snapshotId()));
        if (key.isPresent()) {
          NewFiles again = change(writer + version + "again", random);
          ColocatedTable later = read(cluster);
          CommitResult repeated = new Commit(cluster, storage, again, key, later, new FakeTimer()).run(later);
          assertTrue(repeated.wasCommittedBefore());
          assertEquals(result.snapshotId(), repeated.snapshotId());
        }
      } catch (WriteException.LoadConflict lost) {
        assertTrue(change.mode() != Mode.APPEND, lost.getMessage());
      }
    }
  }

  private static ColocatedTable read(Cluster cluster) throws NoAnswer {
    return cluster.table("shop", "orders");
  }

  private static NewFiles change(String name, Random random) {
    Mode mode = MODES.get(random.nextInt(MODES.size()));
    String day = random.nextBoolean() ? "a" : "b";
    List<DataFile> files = List.of(Files.file(name, day));
    return mode == Mode.OVERWRITE_MATCHING
        ? new NewFiles(mode, files, Buckets.asGroup(2), Optional.of(List.of(Files.day(day)))) : new NewFiles(mode, files, Buckets.asGroup(2));
  }

  /** Each snapshot is the one before it with one change that is said to be committed. */
  private static void checkStory(FakeCluster cluster, Commit.Storage storage, List<Done> done) throws Exception {
    TreeMap<Long, List<String>> story = new TreeMap<>(Map.of(0L, List.of()));
    for (Snapshot snapshot : cluster.state().snapshots()) {
      story.put(snapshot.id(), paths(storage.read(snapshot.manifestSha256()).files()));
    }
    assertEquals(done.size() + 1, story.size(), "as many snapshots as committed changes");
    assertEquals(done.size(), story.lastKey());
    Map<String, Done> byFile = new HashMap<>();
    done.forEach(one -> byFile.put(one.change().files().get(0).path(), one));
    for (long id = 1; id <= done.size(); id++) {
      List<String> before = story.get(id - 1);
      List<String> now = story.get(id);
      assertEquals(now.size(), Set.copyOf(now).size(), "a file is there twice");
      Done change = byFile.remove(now.get(now.size() - 1));
      assertTrue(change != null, "a snapshot has no writer, or is counted twice: " + now);
      List<String> seen = story.get(change.beganOn());
      List<String> gone = before.stream().filter(path -> !now.contains(path)).toList();
      assertTrue(seen.containsAll(gone), change + " removed what it has not seen: " + gone);
      String day = change.change().files().get(0).path().split("/")[1];
      List<String> kept = before.stream().filter(path -> switch (change.change().mode()) {
        case APPEND -> true;
        case OVERWRITE -> false;
        default -> !path.contains(day);
      }).toList();
      assertEquals(kept, now.subList(0, now.size() - 1));
    }
    assertEquals(Map.of(), byFile, "said to be committed, and in no snapshot");
  }

  private static List<String> paths(List<DataFile> files) {
    return files.stream().map(DataFile::path).toList();
  }
}
