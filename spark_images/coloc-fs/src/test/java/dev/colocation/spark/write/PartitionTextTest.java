package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Which texts can be the name of a partition's folder, and which one. */
final class PartitionTextTest {
  @ParameterizedTest
  @CsvSource(ignoreLeadingAndTrailingWhitespace = false, value = {"a/b=c%,p=a%2Fb%3Dc%25", " x ,p= x ", "Ünï,p=Ünï", ".,p=.", "a\"b,p=a%22b", "a\tb\u001f,p=a%09b%1F"})
  void namesAreEscaped(String value, String folder) {
    assertEquals(folder, PartitionText.folder(Map.of("p", value)));
    assertEquals("", PartitionText.refusal("p", value));
  }

  /** The folder's name would be read as NULL. */
  @Test
  void nullsFolderNameIsRefused() {
    assertEquals("partition column p holds the text __HIVE_DEFAULT_PARTITION__, by which folders mean NULL; allowed: any other. "
        + "Replace it, e.g. by NULL: NULLIF(p, '__HIVE_DEFAULT_PARTITION__')",
        PartitionText.refusal("p", "__HIVE_DEFAULT_PARTITION__"));
    assertEquals("", PartitionText.refusal("p", null));
  }

  @Test
  void theCharacterNulIsRefused() {
    assertEquals("partition column p holds a text with the character NUL, which no folder's name can hold; allowed: any other. "
        + "Replace it, e.g. by nothing: replace(p, char(0), '')", PartitionText.refusal("p", "a\0b"));
    assertNotEquals("", PartitionText.refusal("p", "\0b"));
  }

  @ParameterizedTest
  @CsvSource({"x,253,true", "x,254,false", "ü,126,true", "ü,127,false", "=,84,true", "=,85,false"})
  void tooLongNamesAreRefused(String letter, int times, boolean isTaken) {
    String refusal = PartitionText.refusal("p", letter.repeat(times));
    assertEquals(isTaken, refusal.isEmpty(), refusal);
    assertTrue(isTaken || refusal.endsWith("…); allowed: 255. Partition by a shorter text"), refusal);
  }
}
