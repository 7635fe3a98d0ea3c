package dev.colocation.spark.write;

import static dev.colocation.spark.write.Files.A;
import static dev.colocation.spark.write.Files.B;
import static dev.colocation.spark.write.Files.C;
import static dev.colocation.spark.write.Files.D;
import static dev.colocation.spark.write.Files.NULL;
import static dev.colocation.spark.write.Files.day;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.WriteException.SchemaMismatch;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.write.Change.DropColumns;
import dev.colocation.spark.write.Change.DropPartitions;
import dev.colocation.spark.write.Change.Mode;
import dev.colocation.spark.write.Change.NewFiles;
import dev.colocation.spark.write.Change.Overtaken;
import dev.colocation.spark.write.Change.Rebucket;
import dev.colocation.spark.write.Change.Rewrite;
import dev.colocation.spark.write.Change.RollBack;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** What stays of a table's files after each kind of change, and what may have been committed meanwhile. */
class ChangeTest {
  private static final List<DataFile> COMMITTED = List.of(A, B, C, NULL);

  private static NewFiles load(Mode mode, DataFile... files) {
    return new NewFiles(mode, List.of(files), Buckets.asGroup(2));
  }

  private static NewFiles matching(Map<String, String> replaced, DataFile... files) {
    return new NewFiles(Mode.OVERWRITE_MATCHING, List.of(files), Buckets.asGroup(2), Optional.of(List.of(replaced)));
  }

  static Stream<Arguments> changes() {
    return Stream.of(
        arguments("append keeps all", load(Mode.APPEND, D), COMMITTED),
        arguments("overwrite keeps none", load(Mode.OVERWRITE, D), List.of()),
        arguments("partitions of the rows", load(Mode.OVERWRITE_PARTITIONS, D), List.of(C, NULL)),
        arguments("no rows replace no partition", load(Mode.OVERWRITE_PARTITIONS), COMMITTED),
        arguments("a named partition", matching(day("a"), D), List.of(C, NULL)),
        arguments("a named partition without rows", matching(day("b")), List.of(A, B, NULL)),
        arguments("the NULL partition", matching(day(null)), List.of(A, B, C)),
        arguments("no name is all partitions", matching(Map.of(), D), List.of()),
        arguments("a column that files lack matches nothing", matching(Collections.singletonMap("x", null)), COMMITTED),
        arguments("rewrite replaces what it read", new Rewrite(Set.of(A.path(), B.path()), List.of(D), Buckets.asGroup(2)), List.of(C, NULL)),
        arguments("dropped partitions go, NULL too", new DropPartitions(List.of(day("b"), day(null))), List.of(A, B)),
        arguments("dropping what is not there", new DropPartitions(List.of(day("z"))), COMMITTED));
  }

  /** The page is made from the description in the CRD, which is Python's. */
  @Test
  void theirNamesAreDocumented() throws IOException {
    Buckets buckets = Buckets.asGroup(2);
    Stream<Change> others = Stream.of(
        new Rewrite(Set.of(), List.of(), buckets), new Rebucket(Set.of(), List.of(), buckets), new DropPartitions(List.of()),
        new DropColumns(), new RollBack(null, Set.of(), List.of(), Map.of()));
    List<String> names = Stream.of(
        Stream.of(Mode.values()).map(Mode::label), Stream.of(RowChange.Kind.values()).map(RowChange.Kind::label),
        others.map(Change::label)).flatMap(each -> each).toList();
    Path page = Stream.of("docs", "../../docs").map(Path::of).filter(java.nio.file.Files::isDirectory).findFirst().orElseThrow()
        .resolve("reference/kinds.md");
    Matcher listed = Pattern.compile("What made it: ([a-z, -]+)\\.").matcher(java.nio.file.Files.readString(page));
    assertTrue(listed.find());
    assertEquals(names, List.of(listed.group(1).split(", | or ")));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("changes")
  void keepsFilesInTheirOrder(String name, Change change, List<DataFile> kept) throws Overtaken {
    assertEquals(kept, change.kept(COMMITTED));
  }

  /** All that was committed, and a file of a day more. */
  private static List<DataFile> with(String day) {
    return Stream.concat(COMMITTED.stream(), Stream.of(Files.file("f", day))).toList();
  }

  static Stream<Arguments> overtaking() {
    return Stream.of(
        arguments("an append", load(Mode.APPEND, D), COMMITTED, ""),
        arguments("files of another partition came", load(Mode.OVERWRITE_PARTITIONS, D), with("b"), ""),
        arguments("files of another partition went", load(Mode.OVERWRITE_PARTITIONS, D), List.of(A, B), ""),
        arguments("a file of the partition went", load(Mode.OVERWRITE_PARTITIONS, D), List.of(A, C, NULL), "day=a"),
        arguments("a file of the partition came", load(Mode.OVERWRITE_PARTITIONS, D), with("a"), "day=a"),
        arguments("a file of the named partition came", matching(day("b")), with("b"), "day=b"),
        arguments("a file of another than the named partition came", matching(day("b")), with("a"), ""),
        arguments("a dropped partition", new DropPartitions(List.of(day("a"))), List.of(A, C), ""));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("overtaking")
  void conflictsArePerPartition(String name, Change change, List<DataFile> now, String hit) throws Overtaken {
    if (hit.isEmpty()) {
      change.checkOvertaking(COMMITTED, now);
      return;
    }
    Overtaken error = assertThrows(Overtaken.class, () -> change.checkOvertaking(COMMITTED, now));
    assertEquals("1 of the partitions that it replaces were changed meanwhile, e.g. " + hit, error.getMessage());
  }

  @Test
  void aRewriteNeedsEveryFileThatItRead() {
    Rewrite rewrite = new Rewrite(Set.of(A.path(), B.path()), List.of(D), Buckets.asGroup(2));
    Overtaken error = assertThrows(Overtaken.class, () -> rewrite.kept(List.of(B, C)));
    assertEquals("1 of the 2 files that it read are no longer committed, e.g. " + A.path(), error.getMessage());
  }

  @Test
  void newRowsMustBeInTheNamedPartitions() {
    SchemaMismatch error = assertThrows(SchemaMismatch.class, () -> matching(day("b"), D));
    assertEquals("SchemaMismatch: rows are in partition {day=a}, which is none of those that are replaced: [{day=b}]. Filter them, "
        + "or name their partition in the condition", error.getMessage());
    assertThrows(IllegalArgumentException.class, () -> load(Mode.OVERWRITE_MATCHING, D));
    assertThrows(IllegalArgumentException.class,
        () -> new NewFiles(Mode.APPEND, List.of(D), Buckets.asGroup(2), Optional.of(List.of(day("a")))));
  }

  /** Committed values may be shorter, as earlier releases did not pad: new rows alone prove nothing of them. */
  @Test
  void paddingHoldsWhenNoOlderFileStays() {
    Map<String, Integer> declared = Map.of("c", 5);
    assertEquals(Map.of(), load(Mode.APPEND, D).padded(declared, Map.of(), COMMITTED));
    assertEquals(declared, load(Mode.OVERWRITE, D).padded(declared, Map.of(), List.of()));
  }
}
