package dev.colocation.spark.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.plan.KeyRanges.HotKey;
import dev.colocation.spark.plan.KeyRanges.Piece;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class KeyRangesTest {
  private static Piece piece(Object first, Object last, double bytes) {
    return new Piece(KeyRange.of(Arrays.asList(first), Arrays.asList(last)), bytes);
  }

  @Test
  void fileIsCutEvenly() {
    assertEquals(List.of(250L, 500L, 750L), KeyRanges.of(List.of(piece(0L, 1000L, 10)), 4).bounds().stream()
        .map(bound -> Math.round((Long) bound / 50.0) * 50).toList());
  }

  @Test
  void largerFilesHaveMoreRanges() {
    List<Object> bounds = KeyRanges.of(List.of(piece(0L, 99L, 10), piece(100L, 199L, 70)), 8).bounds();
    assertEquals(7, bounds.size());
    assertEquals(6, bounds.stream().filter(bound -> (Long) bound > 100).count(), bounds.toString());
  }

  @Test
  void keyIsNeverCut() {
    assertEquals(1, KeyRanges.of(List.of(piece(7L, 7L, 10), piece(7L, 7L, 10)), 4).count());
    assertEquals(1, KeyRanges.of(List.of(piece(null, null, 10)), 4).count());
    assertEquals(1, KeyRanges.of(List.of(), 4).count());
  }

  @Test
  void textsAreCutWhereFilesBegin() {
    assertEquals(List.of("b", "c"), KeyRanges.of(List.of(piece("a", "b~", 1), piece("b", "c~", 1), piece("c", "d", 1)), 3).bounds());
    assertEquals(1, KeyRanges.of(List.of(piece("a", "z", 1)), 3).count());
    assertEquals(List.of("b"), KeyRanges.of(List.of(piece(null, "b~", 1), piece("b", "c", 1)), 2).bounds());
  }

  @Test
  void greatestNumbersAreCut() {
    KeyRanges ranges = KeyRanges.of(List.of(piece(Long.MIN_VALUE, Long.MAX_VALUE, 1)), 2);
    assertEquals(1, ranges.bounds().size());
    assertTrue(Math.abs((Long) ranges.bounds().get(0)) < 1L << 40, ranges.toString());
  }

  @Test
  void keyOfWholeFilesIsHot() {
    List<Piece> pieces = List.of(piece(0L, 9L, 30), piece(7L, 7L, 20), piece(7L, 7L, 40), piece(null, null, 10));
    assertEquals(List.of(new HotKey(7L, 0.6)), KeyRanges.ALL.withHot(pieces, 0.5).hot());
    assertEquals(List.of(), KeyRanges.ALL.withHot(pieces, 0.6).hot());
    assertEquals(List.of(new HotKey(null, 1)), KeyRanges.ALL.withHot(pieces.subList(3, 4), 0.5).hot());
    assertEquals(List.of(), KeyRanges.ALL.withHot(pieces.subList(0, 1), 0).hot());
  }

  /** Whatever the files, bounds follow each other, none is NULL, and there are no more than were asked for. */
  @Test
  void boundsAscend() {
    Random random = new Random(35);
    for (int round = 0; round < 300; round++) {
      int count = 1 + random.nextInt(9);
      List<Object> bounds = KeyRanges.of(randomPieces(random), count).bounds();
      assertTrue(bounds.size() < count, bounds.toString());
      for (int place = 0; place < bounds.size(); place++) {
        assertTrue(KeyRange.compare(place == 0 ? null : bounds.get(place - 1), bounds.get(place)) < 0, bounds.toString());
      }
    }
  }

  private static List<Piece> randomPieces(Random random) {
    return IntStream.range(0, random.nextInt(6)).mapToObj(place -> {
      long first = random.nextInt(50) - 10;
      Long begin = random.nextInt(5) == 0 ? null : (Long) first;
      return piece(begin, first + random.nextInt(30), 1 + random.nextInt(100));
    }).toList();
  }
}
