package dev.colocation.spark.fs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.colocation.spark.ColocFileSystem;
import java.io.FileNotFoundException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.InvalidPathException;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.RemoteIterator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ListingTest {
  @TempDir Path folder;
  private TestTable table;

  @BeforeEach
  void makeTable() throws Exception {
    table = new TestTable(folder, folder.resolve("unused.crt"));
  }

  @AfterEach
  void forgetExecutors() {
    ExecutorHosts.OF_THIS_DRIVER.clear();
  }

  private List<LocatedFileStatus> listFiles(String path) throws Exception {
    List<LocatedFileStatus> found = new ArrayList<>();
    RemoteIterator<LocatedFileStatus> files = table.open().listFiles(table.location(path), true);
    while (files.hasNext()) {
      found.add(files.next());
    }
    return found;
  }

  /** A recursive listing gives the manifest's files, escaped folders included, with their lengths. */
  @Test
  void listsFilesOfTheManifest() throws Exception {
    List<LocatedFileStatus> files = listFiles("data");
    assertEquals(
        List.of(table.location(TestTable.FIRST), table.location(TestTable.SECOND)),
        files.stream().map(FileStatus::getPath).toList());
    assertEquals(List.of(3_000_000L, 1_000L), files.stream().map(FileStatus::getLen).toList());
  }

  /** A folder's listing gives its direct children only. */
  @Test
  void listsOneFolder() throws Exception {
    FileStatus[] children = table.open().listStatus(table.location("data"));
    assertEquals(
        List.of(table.location("data/day=2024-01-01"), table.location("data/day=a%3Ab")),
        Arrays.stream(children).map(FileStatus::getPath).toList());
    assertTrue(Arrays.stream(children).allMatch(FileStatus::isDirectory));
  }

  /** A file's hosts are those of the executors on its bucket's nodes at the time of the question. */
  @Test
  void hostsFollowTheExecutors() throws Exception {
    LocatedFileStatus first = listFiles("data").get(0);
    assertArrayEquals(new String[0], first.getBlockLocations()[0].getHosts());
    ExecutorHosts.OF_THIS_DRIVER.add("1", "node-1", "10.0.0.1");
    ExecutorHosts.OF_THIS_DRIVER.add("2", "node-3", "10.0.0.3");
    assertArrayEquals(new String[] {"10.0.0.1"}, first.getBlockLocations()[0].getHosts());
    ExecutorHosts.OF_THIS_DRIVER.remove("1");
    ExecutorHosts.OF_THIS_DRIVER.add("3", "node-2", "10.0.0.2");
    assertArrayEquals(new String[] {"10.0.0.2"}, first.getBlockLocations()[0].getHosts());
  }

  /** Of many executors each is wanted for as many buckets as the others; Spark takes three hosts for a bucket. */
  @Test
  void bucketsTakeExecutorsInTurn() {
    List<String> nodes = List.of("node-1", "node-2", "node-3");
    for (int node = 0; node < 3; node++) {
      for (int executor = 0; executor < 4; executor++) {
        ExecutorHosts.OF_THIS_DRIVER.add(node + "-" + executor, nodes.get(node), "10.0." + node + "." + executor);
      }
    }
    List<List<String>> buckets = new ArrayList<>();
    for (int bucket = 0; bucket < 24; bucket++) {
      buckets.add(List.of(nodes.get(bucket % 3), nodes.get((bucket + 1) % 3)));
    }
    Settings.Group group = new Settings.Group("sales", Map.of(), Map.of(), buckets);
    Map<String, Integer> first = new TreeMap<>();
    for (int bucket = 0; bucket < 24; bucket++) {
      String[] hosts = ExecutorHosts.OF_THIS_DRIVER.of(group.nodesOf(bucket), group.turnsOf(bucket));
      assertEquals(3, Arrays.stream(hosts).distinct().count());
      for (int place = 0; place < 2; place++) {
        assertTrue(hosts[place].startsWith("10.0." + (bucket + place) % 3 + "."), hosts[place]);
        first.merge(hosts[place], 1, Integer::sum);
      }
    }
    assertEquals(12, first.size());
    assertTrue(first.values().stream().allMatch(count -> count == 4), first.toString());
  }

  /** A table that was never loaded is an empty folder; any other name is not there. */
  @Test
  void anEmptyTableIsAnEmptyFolder() throws Exception {
    table.manifest = table.writeManifest(Map.of("formatVersion", 1, "buckets", 2, "files", List.of()));
    assertTrue(table.open().getFileStatus(table.location("data")).isDirectory());
    assertEquals(List.of(), listFiles("data"));
    assertThrows(FileNotFoundException.class, () -> table.open().getFileStatus(table.location("data/day=1")));
  }

  /** A name that merely begins alike is not below a folder. */
  @Test
  void aPrefixIsNoFolder() {
    assertThrows(FileNotFoundException.class, () -> table.open().getFileStatus(table.location("data/day=2024-01-0")));
  }

  /** A location without a manifest is refused with the form that is allowed. */
  @Test
  void refusesOtherLocations() {
    InvalidPathException error = assertThrows(
        InvalidPathException.class,
        () -> ColocPath.parse(new org.apache.hadoop.fs.Path("coloc://shop/orders-12345678/data")));
    assertTrue(error.getMessage().contains("<manifest sha256>"), error.getMessage());
  }

  /** Nothing can be written, renamed or deleted. */
  @Test
  void isReadOnly() throws Exception {
    ColocFileSystem fileSystem = table.open();
    org.apache.hadoop.fs.Path path = table.location(TestTable.FIRST);
    assertThrows(UnsupportedOperationException.class, () -> fileSystem.create(path));
    assertThrows(UnsupportedOperationException.class, () -> fileSystem.delete(path, true));
    assertThrows(UnsupportedOperationException.class, () -> fileSystem.rename(path, path));
    assertFalse(fileSystem.getFileStatus(path).getPermission().getUserAction()
        .implies(org.apache.hadoop.fs.permission.FsAction.WRITE));
  }
}
