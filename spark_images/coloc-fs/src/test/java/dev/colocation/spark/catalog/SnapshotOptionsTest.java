package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.colocation.spark.catalog.OptionsOfReads.SnapshotOptions;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Snapshot;
import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;

/** Options that choose a snapshot, as Spark reads them. */
class SnapshotOptionsTest {
  @Test
  void otherNamesBecomeSparksNames() {
    assertRead(Map.of("versionAsOf", "3", "batch-size", "1"), Map.of("Snapshot-Id", "3", "batch-size", "1"));
    assertRead(Map.of("versionAsOf", "3"), Map.of("snapshot-id", "3", "VERSIONASOF", "3"));
    assertRead(Map.of("timestampAsOf", "2023-11-14T22:13:20.123Z"), Map.of("as-of-timestamp", "1700000000123"));
    assertRead(Map.of("timestampAsOf", "2023-11-14"), Map.of("timestampAsOf", "2023-11-14"));
    assertRead(Map.of("locality", "true"), Map.of("locality", "true"));
  }

  private static CaseInsensitiveStringMap read(Map<String, String> given) {
    return SnapshotOptions.asSparks(new CaseInsensitiveStringMap(given), "versionAsOf", "timestampAsOf");
  }

  private static void assertRead(Map<String, String> expected, Map<String, String> given) {
    assertEquals(new CaseInsensitiveStringMap(expected), read(given));
  }

  @Test
  void twoSnapshotsAreRefused() {
    assertRefused("options snapshot-id='3' and versionAsOf='4' choose different snapshots; give one of them",
        Map.of("snapshot-id", "3", "versionAsOf", "4"));
    assertRefused("options as-of-timestamp='0' and snapshot-id='3' choose different snapshots; give one of them",
        Map.of("snapshot-id", "3", "as-of-timestamp", "0"));
    assertRefused("options timestampAsOf='2023-11-14' and versionAsOf='4' choose different snapshots; give one of them",
        Map.of("timestampAsOf", "2023-11-14", "versionAsOf", "4"));
    for (String time : new String[] {"yesterday", "99999999999999999999"}) {
      assertRefused("as-of-timestamp='" + time + "'; allowed: milliseconds since 1970-01-01 UTC, or use timestampAsOf='<time>'",
          Map.of("as-of-timestamp", time));
    }
  }

  private static void assertRefused(String message, Map<String, String> given) {
    Throwable error = assertThrows(ColocationException.class, () -> read(given));
    assertEquals("InvalidOption: " + message, error.getMessage());
  }
}
