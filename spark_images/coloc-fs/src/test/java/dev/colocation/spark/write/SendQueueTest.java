package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.fs.TestTls;
import dev.colocation.spark.write.Destination.AgentAccess;
import dev.colocation.spark.write.FileSender.SendQueue;
import dev.colocation.spark.write.ParquetFiles.LocalFile;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What becomes of a task's files when it ends before they are sent. */
class SendQueueTest {
  /** Two files are being sent to an agent that does not answer, the third waits for them. */
  @Test
  void killedTaskLeavesNoFile(@TempDir Path folder) throws Exception {
    TestTls tls = TestTls.forNodes(folder, "node-1");
    Path token = java.nio.file.Files.writeString(folder.resolve("token"), "writer\n");
    List<Path> contents = Stream.of("first", "second", "third").map(folder::resolve).toList();
    try (ServerSocket silent = new ServerSocket(0, 0, InetAddress.getLoopbackAddress());
        SendQueue sendQueue = new SendQueue(new Destination(
            "shop", "orders-12345678", List.of(List.of("node-1")), 1,
            Map.of("node-1", "https://127.0.0.1:" + silent.getLocalPort()),
            new AgentAccess(token.toString(), tls.authority().toString(), 60)))) {
      for (Path content : contents) {
        java.nio.file.Files.write(content, new byte[] {1});
      }
      sendQueue.add(Files.A, new LocalFile(contents.get(0)));
      sendQueue.add(Files.B, new LocalFile(contents.get(1)));
      Thread.currentThread().interrupt();
      assertThrows(WriteException.class, () -> sendQueue.add(Files.C, new LocalFile(contents.get(2))));
      Thread.interrupted();
    }
    assertEquals(List.of(), contents.stream().filter(java.nio.file.Files::exists).toList());
  }
}
