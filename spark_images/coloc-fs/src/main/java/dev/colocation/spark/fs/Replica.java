package dev.colocation.spark.fs;

import dev.colocation.spark.fs.AgentAddresses.AgentAddress;
import dev.colocation.spark.fs.Transfer.RangeTarget;
import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;

/** One copy of a file. Not safe to share between threads. */
public interface Replica extends Closeable {
  /** For error messages: where the copy is. */
  String place();

  /** How many bytes are fetched in one request when fewer are needed. */
  int blockBytes();

  /** Whether it is on this node's disk. */
  boolean isLocal();

  /**
   * Reads at least one byte, at most {@code length}.
   *
   * @throws IOException when nothing could be read
   */
  int read(long position, byte[] target, int offset, int length) throws IOException;

  /** The copy on this node's disk. */
  final class LocalReplica implements Replica {
    private static final int BLOCK_BYTES = 64 << 10;
    /** The channel copies through a direct buffer of each read's size, and keeps it per thread. */
    private static final int MAX_READ_BYTES = 1 << 20;

    private final Path file;
    private FileChannel channel;

    public LocalReplica(Path file) {
      this.file = file;
    }

    @Override
    public String place() {
      return "local disk (" + file + ")";
    }

    @Override
    public int blockBytes() {
      return BLOCK_BYTES;
    }

    @Override
    public boolean isLocal() {
      return true;
    }

    @Override
    public int read(long position, byte[] target, int offset, int length) throws IOException {
      if (channel == null) {
        channel = FileChannel.open(file, StandardOpenOption.READ);
      }
      int count = channel.read(ByteBuffer.wrap(target, offset, Math.min(length, MAX_READ_BYTES)), position);
      if (count <= 0) {
        throw new IOException("the file ends at " + channel.size() + " bytes, before position " + position);
      }
      return count;
    }

    @Override
    public void close() throws IOException {
      if (channel != null) {
        channel.close();
        channel = null;
      }
    }
  }

  /** A copy on another node, read through its agent. */
  final class RemoteReplica implements Replica {
    private static final int BLOCK_BYTES = 1 << 20;

    private final AgentHttp agents;
    private final AgentAddress address;
    private final ColocPath file;
    private final String target;
    private final Duration timeout;

    public RemoteReplica(AgentHttp agents, AgentAddress address, ColocPath file, Duration timeout) {
      this.agents = agents;
      this.address = address;
      this.file = file;
      this.target = AgentHttp.fileTarget(file);
      this.timeout = timeout;
    }

    String node() {
      return address.node();
    }

    /** {@code <namespace>/<directory>/<path>}, percent-encoded. */
    String target() {
      return target;
    }

    /**
     * Asks the agent to check the file; a damaged one is quarantined and replaced.
     *
     * @return whether it is damaged
     * @throws IOException when the agent did not answer
     */
    boolean checkForDamage() throws IOException {
      return address.call(url -> agents.checkForDamage(address.node(), url, file, timeout));
    }

    @Override
    public String place() {
      return address.node() + " (" + address.url() + ")";
    }

    @Override
    public int blockBytes() {
      return BLOCK_BYTES;
    }

    @Override
    public boolean isLocal() {
      return false;
    }

    @Override
    public int read(long position, byte[] buffer, int offset, int length) throws IOException {
      RangeTarget range = new RangeTarget(buffer, offset, Math.min(length, AgentHttp.MAX_REQUEST_BYTES));
      return address.call(url -> agents.readRange(address.node(), url, target, position, range, timeout));
    }

    @Override
    public void close() {
      // Connections belong to the shared client.
    }
  }
}
