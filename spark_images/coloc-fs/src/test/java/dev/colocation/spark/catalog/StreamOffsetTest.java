package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.colocation.spark.catalog.StreamOffset.Position;
import dev.colocation.spark.cluster.ColocationException;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** What a checkpoint keeps of a stream's position: after a restart the same micro-batch has the same files. */
final class StreamOffsetTest {
  private static final List<Position> POSITIONS = List.of(
      Position.BEFORE_ALL, new Position(7, "a".repeat(64), StreamOffset.ALL, false), new Position(7, "b".repeat(64), 0, true),
      new Position(1L << 40, "c".repeat(64), 3, false));

  private static void assertSame(StreamOffset expected, StreamOffset actual) {
    assertEquals(
        List.of(expected.folder(), expected.firstBegin(), expected.position()),
        List.of(actual.folder(), actual.firstBegin(), actual.position()));
  }

  /** Only the end of the first batch has its beginning: that of each later one is the end before. */
  @Test
  void aCheckpointKeepsEveryPosition() {
    StreamOffset start = StreamOffset.begin("shop/orders-1");
    assertSame(start, StreamOffset.parse(start.json()));
    assertEquals(List.of(Optional.empty(), Optional.empty()), List.of(start.firstBegin(), start.position()));
    for (Position begin : POSITIONS) {
      for (Position end : POSITIONS) {
        StreamOffset first = start.to(begin, end);
        assertEquals(List.of(Optional.of(begin), Optional.of(end)), List.of(first.firstBegin(), first.position()));
        assertSame(first, StreamOffset.parse(first.json()));
        StreamOffset second = StreamOffset.parse(first.json()).to(end, begin);
        assertEquals(List.of(Optional.empty(), Optional.of(begin)), List.of(second.firstBegin(), second.position()));
        assertSame(second, StreamOffset.parse(second.json()));
      }
    }
  }

  @Test
  void anotherSourcesOffsetIsRefused() {
    ColocationException error = assertThrows(ColocationException.class, () -> StreamOffset.parse("v1: 7"));
    assertEquals("the checkpoint's offset is not one of a ColocatedTable: v1: 7", error.getMessage());
  }
}
