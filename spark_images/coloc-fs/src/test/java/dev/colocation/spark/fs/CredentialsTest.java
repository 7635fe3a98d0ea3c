package dev.colocation.spark.fs;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** An application without token or CA gets that error, and not one about missing files. */
final class CredentialsTest {
  @TempDir Path folder;
  private Path authority;
  private TestTable table;

  @BeforeEach
  void makeTable() throws Exception {
    authority = TestTls.forNodes(folder, "node-1").authority();
    table = new TestTable(folder, authority);
    table.agents.put("node-1", "https://127.0.0.1:1");
    table.agents.put("node-2", "https://127.0.0.1:1");
  }

  private void assertNoCredentials(String manifest, Path missing) throws IOException {
    table.manifest = manifest;
    IOException error =
        assertThrows(IOException.class, () -> table.open().open(table.location(TestTable.FIRST)).read());
    for (String part : List.of("NoCredentials: cannot read the token or the agents' CA: ", missing.toString())) {
      assertTrue(error.getMessage().contains(part), error.getMessage());
    }
    assertFalse(error.getMessage().contains("dropped"), error.getMessage());
  }

  @Test
  void missingTokenIsReported() throws Exception {
    Files.delete(table.tokenFile);
    assertNoCredentials(table.manifest, table.tokenFile);
    assertNoCredentials("f".repeat(64), table.tokenFile);
  }

  @Test
  void missingAuthorityIsReported() throws Exception {
    Files.delete(authority);
    assertNoCredentials(table.manifest, authority);
    assertNoCredentials("e".repeat(64), authority);
  }
}
