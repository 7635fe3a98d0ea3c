package dev.colocation.spark.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The application chooses the token and the CA; a session may only repeat it. */
final class CredentialFileTest {
  @ParameterizedTest
  @CsvSource({
      "'', '', /var/run/secrets/colocation.dev/token",
      "' ', '', /var/run/secrets/colocation.dev/token",
      "/ours, '', /ours",
      "'', /hadoops, /hadoops",
      "/ours, /hadoops, /ours"})
  void applicationChoosesTheFile(String ours, String hadoops, String expected) {
    Map<String, String> conf = Map.of("spark.colocation.tokenFile", ours, "spark.hadoop.fs.coloc.token.file", hadoops);
    assertEquals(expected, CredentialFile.TOKEN.of(conf::get));
  }

  @ParameterizedTest
  @CsvSource({"''", "/ours", "' /ours '"})
  void sessionMayRepeatTheChoice(String session) {
    assertEquals("", CredentialFile.TOKEN.refusal(session, "/ours"));
  }

  @Test
  void sessionMayNotChoose() {
    String refusal = CredentialFile.AUTHORITY.refusal("/theirs", "/ours");
    assertTrue(refusal.startsWith("spark.colocation.caFile='/theirs' of this session is not allowed; only the application's "
        + "configuration names the file that is read, here '/ours'. RESET spark.colocation.caFile"), refusal);
  }
}
