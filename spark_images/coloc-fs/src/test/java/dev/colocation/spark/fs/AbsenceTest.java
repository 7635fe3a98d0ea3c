package dev.colocation.spark.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.colocation.spark.fs.AgentFailure.AgentRefused;
import dev.colocation.spark.fs.ReadMetrics.ReadCounters;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** A file that every place lacks is gone, as after its table was dropped; one that somebody may have is waited for. */
final class AbsenceTest {
  private static final IOException ABSENT = new AgentRefused(404, "NotFound");
  private static final IOException LOCALLY_ABSENT = new NoSuchFileException("/data/x");

  /** Fails always in the same way. */
  private record Failing(IOException error, boolean isLocal) implements Replica {
    @Override
    public String place() {
      return isLocal ? "local disk" : "node-1";
    }

    @Override
    public int blockBytes() {
      return 1;
    }

    @Override
    public int read(long position, byte[] target, int offset, int length) throws IOException {
      throw error;
    }

    @Override
    public void close() {
      // Nothing is open.
    }
  }

  private static IOException read(Duration deadline, Replica... replicas) {
    ReplicaReader reader = new ReplicaReader(
        "bucket 3 of table shop.orders", List.of(replicas), deadline, ReadCounters.OF_THIS_JVM);
    return assertThrows(IOException.class, () -> reader.readFully(0, new byte[1], 0, 1));
  }

  @Test
  void fileIsGoneWhenEveryPlaceLacksIt() {
    IOException error = read(Duration.ofHours(1), new Failing(LOCALLY_ABSENT, true), new Failing(ABSENT, false));
    assertEquals(FileNotFoundException.class, error.getClass());
    assertTrue(error.getMessage().startsWith("no node has bucket 3 of table shop.orders any longer. Its table was dropped while "
        + "the query ran (`colocation recover` brings it back)"), error.getMessage());
  }

  static Stream<IOException> otherFailures() {
    return Stream.of(new IOException("Connection refused"), new EOFException("cut off"), new AgentRefused(503, "Stopping"),
        new AgentRefused(403, "Forbidden"));
  }

  @ParameterizedTest
  @MethodSource("otherFailures")
  void fileIsNotGoneWhileAPlaceIsUnavailable(IOException failure) {
    IOException error = read(Duration.ZERO, new Failing(ABSENT, false), new Failing(failure, false));
    assertEquals(IOException.class, error.getClass());
    assertTrue(error.getMessage().startsWith("no replica of bucket 3 of table shop.orders could be read"), error.getMessage());
  }
}
