package dev.colocation.spark.fs;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** The copy on this node's disk. */
public final class LocalReplica implements Replica {
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
