package dev.colocation.spark.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import dev.colocation.spark.fs.KeyRange;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** How many mebibytes of files a task merges, by its application's configuration, on a driver with eight processors. */
final class MergeMemoryTest {
  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "102 | spark.master=k8s://x",
      "409 | spark.master=k8s://x spark.executor.memory=4g",
      "512 | spark.master=k8s://x spark.executor.memory=16g",
      "204 | spark.master=k8s://x spark.executor.memory=4096 spark.executor.cores=2",
      "409 | spark.master=k8s://x spark.executor.memory=4g spark.executor.cores=4 spark.task.cpus=4",
      "409 | spark.master=k8s://x spark.executor.memory=4g spark.executor.cores=2 spark.task.cpus=4",
      "12 | spark.master=local[*] spark.executor.memory=64g",
      "204 | spark.master=local[2] spark.driver.memory=4g",
      "409 | spark.master=local spark.driver.memory=4g",
      "102 | spark.master=local[4,3] spark.driver.memory=4g",
      "60 | spark.master=local-cluster[2,1,600] spark.executor.memory=600m",
      "102 |"})
  void aTenthOfATasksMemory(long mebibytes, String settings) {
    Map<String, String> conf = Arrays.stream(settings == null ? new String[0] : settings.split(" "))
        .map(setting -> setting.split("=", 2)).collect(Collectors.toMap(setting -> setting[0], setting -> setting[1]));
    assertEquals(mebibytes, MergeMemory.mostBytes(conf::getOrDefault, 8) >> 20);
  }

  /** A large file and a small append are merged: 2 GiB count as one row group. */
  @ParameterizedTest
  @CsvSource({"2048, 32, 128", "128, 32, 128", "10, 10, 10", "0, 0, 0"})
  void aReaderHoldsOneRowGroup(long fileMebibytes, long heldMebibytes, long heldOfOldMebibytes) {
    assertEquals(heldMebibytes << 20, MergeMemory.heldBytes(fileMebibytes << 20, KeyRange.of(List.of(1L), List.of(2L))));
    assertEquals(heldOfOldMebibytes << 20, MergeMemory.heldBytes(fileMebibytes << 20, KeyRange.NONE));
  }

  /** Sixty-four chains within the memory; a single one, however large. A chain has its largest file in memory. */
  @ParameterizedTest
  @CsvSource({"1, 900, true", "2, 50, true", "2, 51, false", "64, 1, true", "65, 1, false"})
  void chainsAreMergedWithinBounds(int chains, long largest, boolean fits) {
    List<List<Long>> files = Collections.nCopies(chains, List.of(largest, 1L, largest));
    assertEquals(fits, MergeMemory.fits(files, size -> size, 100));
  }
}
