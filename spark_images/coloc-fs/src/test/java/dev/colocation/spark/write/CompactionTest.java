package dev.colocation.spark.write;

import static dev.colocation.spark.write.Files.A;
import static dev.colocation.spark.write.Files.B;
import static dev.colocation.spark.write.Files.C;
import static dev.colocation.spark.write.Files.D;
import static dev.colocation.spark.write.Files.day;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.plan.FileChains;
import dev.colocation.spark.write.Change.Rewrite;
import dev.colocation.spark.write.Compaction.Rule;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CompactionTest {
  private static final List<DataFile> COMMITTED = List.of(A, B, C);

  private static DataFile of(long rows, int bucket) {
    return new DataFile("data/day=a/part-0000000f-1_0000" + bucket + ".c000.zstd.parquet", bucket, day("a"), rows, 1, A.sha256(), KeyRange.NONE);
  }

  private static Rule rule(int mostFiles) {
    return new Rule(mostFiles, new FileChains<>(DataFile::keys, 1), 50);
  }

  @Test
  void onlyCrowdedBucketsOfChosenPartitions() {
    assertEquals(List.of(A, B), Compaction.of(COMMITTED, rule(1), List.of()).files());
    assertTrue(Compaction.of(COMMITTED, rule(2), List.of()).isEmpty());
    assertTrue(Compaction.of(COMMITTED, rule(1), List.of(day("b"))).isEmpty());
    assertEquals(List.of(A, B, D), Compaction.of(List.of(A, C, B, D), rule(1), List.of(day("a"), day("b"))).files().stream()
        .sorted((one, other) -> one.path().compareTo(other.path())).toList());
  }

  /** Of a bucket, by their keys and bytes: what a compaction that leaves one file takes. */
  @ParameterizedTest
  @CsvSource({
      "0-9:80 10-19:80 20-29:80, ''",
      "0-9:80 10-19:80 20-29:9, ''",
      "0-9:80 10-19:80 20-29:9 30-39:9, 20-29:9 30-39:9",
      "0-9:9 10-19:80 20-29:80, ''",
      "0-9:9 10-19:80 20-29:9, 0-9:9 10-19:80 20-29:9",
      "0-9:80 10-19:80 15-25:80 30-39:80, 10-19:80 15-25:80",
      "0-9:80 10-19:80 3-14:9, 0-9:80 3-14:9 10-19:80",
  })
  void fullFilesInOrderStay(String committed, String taken) {
    List<DataFile> files = Arrays.stream(committed.split(" ")).map(CompactionTest::keyed).toList();
    Compaction crowded = Compaction.of(files, rule(1), List.of());
    assertEquals(taken, crowded.files().stream().map(file -> file.keys().first().get(0) + "-" + file.keys().last().get(0) + ":" + file.bytes())
        .collect(Collectors.joining(" ")));
  }

  private static DataFile keyed(String text) {
    long[] numbers = Arrays.stream(text.split("[-:]")).mapToLong(Long::parseLong).toArray();
    DataFile file = file("a", numbers[2], Math.toIntExact(numbers[0]));
    return new DataFile(file.path(), 0, file.partition(), 1, file.bytes(), file.sha256(),
        KeyRange.of(List.of(numbers[0]), List.of(numbers[1])));
  }

  @Test
  void sameRowsInOtherFiles() {
    Rewrite change = Compaction.of(COMMITTED, rule(1), List.of()).change(List.of(of(20, 0)), Buckets.asGroup(2));
    assertEquals(Set.of(A.path(), B.path()), change.replaced());
  }

  @Test
  void rowsThatWereLostOrMovedAreRefused() {
    Compaction crowded = Compaction.of(COMMITTED, rule(1), List.of());
    for (List<DataFile> written : List.of(List.<DataFile>of(), List.of(of(19, 0)), List.of(of(20, 1)), List.of(of(20, 0), of(1, 1)))) {
      WriteException refused = assertThrows(WriteException.RowsDiffer.class, () -> crowded.change(written, Buckets.asGroup(2)));
      assertTrue(refused.getMessage().contains("nothing was changed"), refused.getMessage());
    }
  }

  /** Of a bucket of the group: the table's buckets are others afterwards. */
  @Test
  void rowsThatARebucketingLostOrMovedAreRefused() {
    Buckets four = new Buckets(2, 4);
    DataFile first = Files.ofFour("0000001a", "a", 1);
    DataFile third = Files.ofFour("0000001b", "a", 3);
    Rebucketing rebucketing = new Rebucketing(List.of(Files.file("0000000a", "a", 1), Files.file("0000000b", "a", 1)), 4);
    assertEquals(List.of(first, third), rebucketing.change(List.of(first, third), four).files());
    for (List<DataFile> written : List.of(List.of(first), List.of(first, Files.ofFour("0000001b", "a", 2)),
        List.of(first, Files.ofFour("0000001b", "b", 3)), List.of(first, third, Files.ofFour("0000001c", "c", 3)))) {
      assertThrows(WriteException.RowsDiffer.class, () -> rebucketing.change(written, four));
    }
  }

  @Test
  void filesAreKnownOnlyWhileTheCompactionRuns() {
    Compaction crowded = Compaction.of(COMMITTED, rule(1), List.of());
    String id = FileReplacement.Running.begin(crowded);
    assertEquals(crowded, FileReplacement.Running.find(id));
    FileReplacement.Running.end(id);
    assertThrows(WriteException.class, () -> FileReplacement.Running.find(id));
  }

  private static DataFile file(String day, long bytes, int number) {
    return new DataFile("data/day=" + day + "/part-0000000f-1_00000.c00" + number + ".zstd.parquet", 0, day(day), 1, bytes, A.sha256(), KeyRange.NONE);
  }

  @Test
  void partsHaveWholePartitionsOfSimilarSizes() {
    List<DataFile> files = List.of(file("a", 5, 0), file("a", 5, 1), file("b", 4, 0), file("b", 3, 1), file("c", 1, 0), file("c", 1, 1));
    assertEquals(List.of(Set.of(day("a")), Set.of(day("b"), day("c"))), days(new Compaction(files).parts(2)));
    assertEquals(List.of(Set.of(day("a")), Set.of(day("b")), Set.of(day("c"))), days(new Compaction(files).parts(9)));
    assertEquals(List.of(Set.of(day("a"), day("b"), day("c"))), days(new Compaction(files).parts(1)));
  }

  private static List<Set<Map<String, String>>> days(List<Compaction> parts) {
    return parts.stream().map(part -> part.files().stream().map(DataFile::partition).collect(Collectors.toSet())).toList();
  }
}
