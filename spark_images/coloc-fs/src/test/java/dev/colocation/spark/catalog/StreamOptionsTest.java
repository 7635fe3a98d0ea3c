package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import dev.colocation.spark.catalog.StreamOffset.Position;
import dev.colocation.spark.catalog.StreamOptions.StreamStart;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Snapshot;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Where a stream without a checkpoint begins. Snapshot n was committed n minutes after midnight; it is a quarter past. */
final class StreamOptionsTest {
  private static final Instant MIDNIGHT = Instant.parse("2026-01-01T00:00:00Z");

  private static Position position(long oldest, long newest, String option, String value) {
    List<Snapshot> kept = LongStream.rangeClosed(oldest, newest).mapToObj(StreamOptionsTest::snapshot).toList();
    StreamOptions options = StreamOptions.of(new CaseInsensitiveStringMap(option == null ? Map.of() : Map.of(option, value)));
    return new StreamStart("t", kept, options, MIDNIGHT.plusSeconds(900)).position();
  }

  private static Snapshot snapshot(long id) {
    Instant time = MIDNIGHT.plusSeconds(60 * id);
    return new Snapshot(id, "m" + id, time, JsonNodeFactory.instance.objectNode().put("committedAt", time.toString()));
  }

  /** After 0: before all rows. */
  @ParameterizedTest
  @CsvSource({
      "1, 3, startingVersion, 1, 0", "1, 3, startingVersion, 2, 1", "1, 3, startingVersion, 4, 3", "1, 3, startingVersion, latest, 3",
      "1, 0, startingVersion, 1, 0", "1, 0, startingVersion, latest, 0", "2, 4, startingVersion, 3, 2",
      "1, 3, startingTimestamp, 2025-12-31T00:00:00Z, 0", "1, 3, startingTimestamp, 2026-01-01T00:02:00Z, 1",
      "1, 3, startingTimestamp, 2026-01-01T00:02:01Z, 2", "1, 3, startingTimestamp, 2026-01-01T00:15:00Z, 3",
      "1, 0, startingTimestamp, 2026-01-01T00:15:00Z, 0", "2, 4, startingTimestamp, 2026-01-01T00:03:00Z, 2"})
  void beginsAfter(long oldest, long newest, String option, String value, long snapshot) {
    assertEquals(snapshot == 0 ? Position.BEFORE_ALL : Position.after(snapshot(snapshot)), position(oldest, newest, option, value));
  }

  @ParameterizedTest
  @CsvSource({"1, 3", "2, 3"})
  void beginsWithAllRowsOtherwise(long oldest, long newest) {
    assertEquals(new Position(3, "m3", 0, true), position(oldest, newest, null, null));
  }

  /** The predecessor of the first commit must be kept, so that its own rows are known. */
  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "1 | 3 | startingVersion | 5 | commits 1 (of 2026-01-01T00:01:00Z) to 4, the next one",
      "2 | 4 | startingVersion | 1 | commits 3 (of 2026-01-01T00:03:00Z) to 5, the next one",
      "2 | 4 | startingVersion | 2 | commits 3 (of 2026-01-01T00:03:00Z) to 5, the next one",
      "2 | 2 | startingVersion | 2 | commits 3 (of the future) to 3, the next one",
      "2 | 4 | startingTimestamp | 2026-01-01T00:02:00Z | commits 3 (of 2026-01-01T00:03:00Z) to 5, the next one",
      "1 | 0 | startingVersion | 2 | 1, since the table has no snapshot yet",
      "1 | 3 | startingTimestamp | 2026-01-01T00:15:01Z | a time that has come; it is 2026-01-01T00:15:00Z"})
  void otherBeginningsAreRefused(long oldest, long newest, String option, String value, String allowed) {
    String said = assertThrows(ColocationException.class, () -> position(oldest, newest, option, value)).getMessage();
    assertTrue(said.startsWith("table t: " + option + "='" + value + "'; allowed: " + allowed), said);
  }
}
