package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.colocation.spark.cluster.CommitKey;
import dev.colocation.spark.cluster.WriteException.InvalidOption;
import dev.colocation.spark.write.WriteOptions.ReplacedRows;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What the options of a write say, and which contradict each other. */
class WriteOptionsTest {
  @ParameterizedTest
  @CsvSource({
      "partitionOverwriteMode=DYNAMIC, , true", "OVERWRITE-MODE=dynamic, , true", "overwrite-mode=Static, , false",
      "partitionOverwriteMode=dynamic;overwrite-mode=dynamic, , true", "replaceWhere=p = 1, p = 1, ",
      "REPLACEWHERE=p = 1;overwrite-mode=static, p = 1, false", "compression=zstd, , "})
  void replacedRows(String given, String where, Boolean isDynamic) {
    assertEquals(new ReplacedRows(Optional.ofNullable(where), Optional.ofNullable(isDynamic)), ReplacedRows.of(options(given)));
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "partitionOverwriteMode=dynamc | partitionOverwriteMode='dynamc'; allowed: dynamic, static",
      "overwrite-mode= | overwrite-mode=''; allowed: dynamic, static",
      "partitionOverwriteMode=dynamic;overwrite-mode=static "
          + "| overwrite-mode='static' and partitionOverwriteMode='dynamic' contradict each other; give one of them",
      "replaceWhere=p = 1;overwrite-mode=dynamic "
          + "| replaceWhere='p = 1' and partitionOverwriteMode (or overwrite-mode) 'dynamic' contradict each other; give one of them"})
  void contradictingChoicesOfRowsAreRefused(String given, String message) {
    assertEquals("InvalidOption: " + message,
        assertThrows(InvalidOption.class, () -> ReplacedRows.of(options(given))).getMessage());
  }

  @ParameterizedTest
  @CsvSource({"target-file-size=1, 1", "target-file-size=2m, 2097152", "compression=zstd, 268435456"})
  void sizesOfFiles(String given, long bytes) {
    WriteOptions options = WriteOptions.of(options(given), Map.of());
    assertEquals(List.of(bytes, 2 * bytes), List.of(options.targetFileSize(), options.shuffledSize()));
  }

  @ParameterizedTest
  @ValueSource(strings = {"0", "-1", "0m", "many", ""})
  void sizesOfFilesArePositive(String size) {
    String given = "target-file-size=" + size;
    InvalidOption error = assertThrows(InvalidOption.class, () -> WriteOptions.of(options(given), Map.of()));
    assertEquals("InvalidOption: target-file-size='" + size + "'; allowed: bytes, or a size such as 256m", error.getMessage());
  }

  @ParameterizedTest
  @CsvSource({"idempotency-key=a, a, 0", "Idempotency-Key=a;idempotency-version=7, a, 7", "TXNAPPID=b;txnVersion=3, b, 3"})
  void keysOfWrites(String given, String writer, long version) {
    assertEquals(Optional.of(new CommitKey(writer, version)), WriteOptions.of(options(given), Map.of()).key());
  }

  /** Else the session's next statement would be taken for a repetition of the compaction after the one before. */
  @Test
  void aCompactionHasNoKey() {
    Map<String, String> session = Map.of("spark.colocation.write.idempotencyKey", "of the session");
    assertEquals(Optional.of(new CommitKey("of the session", 0)), WriteOptions.of(CaseInsensitiveStringMap.empty(), session).key());
    String id = FileReplacement.Running.begin(new Compaction(List.of()));
    assertEquals(Optional.empty(), WriteOptions.of(options("replacement-id=" + id), session).key());
    FileReplacement.Running.end(id);
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "txnAppId=a | txnAppId and txnVersion name a write together; give both",
      "txnVersion=1 | txnAppId and txnVersion name a write together; give both",
      "txnAppId=a;txnVersion=x | txnVersion='x'; allowed: a whole number from 0",
      "txnAppId=a;txnVersion=-1 | version -1 of writer a; allowed: 0 to 9007199254740991",
      "idempotency-version=1 | idempotency-key is missing, which idempotency-version needs; allowed: 1 to 128 characters",
      "idempotency-key=a;txnVersion=1 "
          + "| idempotency-key (or idempotency-version) and txnAppId (or txnVersion) both name the write; give one of them"})
  void invalidKeysAreRefused(String given, String message) {
    assertEquals("InvalidOption: " + message,
        assertThrows(InvalidOption.class, () -> WriteOptions.of(options(given), Map.of())).getMessage());
  }

  /** The session's key is that of a statement which has none; a setting that is misspelt would be none. */
  @Test
  void settingsOfTheSession() {
    Map<String, String> session = Map.of("spark.colocation.write.idempotencyKey", "of-session", "spark.sql.ansi.enabled", "true");
    CaseInsensitiveStringMap nothing = CaseInsensitiveStringMap.empty();
    assertEquals(Optional.empty(), WriteOptions.of(nothing, Map.of()).key());
    assertEquals(Optional.of(new CommitKey("of-session", 0)), WriteOptions.of(nothing, session).key());
    assertEquals(Optional.of(new CommitKey("b", 3)), WriteOptions.of(options("txnAppId=b;txnVersion=3"), session).key());
    assertEquals("InvalidOption: the session sets spark.colocation.write.idempotencykey, which is unknown; allowed: "
        + "spark.colocation.write.idempotencyKey, spark.colocation.write.targetFileSize. RESET it",
        assertThrows(InvalidOption.class, () ->
            WriteOptions.of(nothing, Map.of("spark.colocation.write.idempotencykey", "a"))).getMessage());
  }

  private static CaseInsensitiveStringMap options(String given) {
    Map<String, String> options = new HashMap<>();
    for (String option : given.split(";")) {
      String[] parts = option.split("=", 2);
      options.put(parts[0], parts[1]);
    }
    return new CaseInsensitiveStringMap(options);
  }
}
