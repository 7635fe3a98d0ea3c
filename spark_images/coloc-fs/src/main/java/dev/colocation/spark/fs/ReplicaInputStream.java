package dev.colocation.spark.fs;

import java.io.EOFException;
import java.io.IOException;
import org.apache.hadoop.fs.FSExceptionMessages;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileSystem;

/** A seekable stream over a {@link ReplicaReader}: small reads come from one buffered block, large ones go straight through. */
public final class ReplicaInputStream extends FSInputStream {
  private final ReplicaReader reader;
  private final long length;
  private final FileSystem.Statistics statistics;
  private long position;
  private byte[] block = new byte[0];
  private long blockStart;
  private boolean closed;

  public ReplicaInputStream(ReplicaReader reader, long length, FileSystem.Statistics statistics) {
    this.reader = reader;
    this.length = length;
    this.statistics = statistics;
  }

  @Override
  public synchronized int read() throws IOException {
    byte[] one = new byte[1];
    return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
  }

  @Override
  public synchronized int read(byte[] target, int offset, int wanted) throws IOException {
    int count = readAt(position, target, offset, wanted);
    position += Math.max(count, 0);
    return count;
  }

  @Override
  public synchronized int read(long from, byte[] target, int offset, int wanted) throws IOException {
    validatePositionedReadArgs(from, target, offset, wanted);
    return readAt(from, target, offset, wanted);
  }

  private int readAt(long from, byte[] target, int offset, int wanted) throws IOException {
    if (closed) {
      throw new IOException(FSExceptionMessages.STREAM_IS_CLOSED);
    }
    if (wanted == 0) {
      return 0;
    }
    if (from >= length) {
      return -1;
    }
    int count = (int) Math.min(wanted, length - from);
    int blockBytes = reader.blockBytes();
    if (from >= blockStart && from < blockStart + block.length) {
      count = copyFromBlock(from, target, offset, count);
    } else if (count >= blockBytes) {
      reader.readFully(from, target, offset, count);
    } else {
      long start = from - from % blockBytes;
      byte[] fetched = new byte[(int) Math.min(blockBytes, length - start)];
      reader.readFully(start, fetched, 0, fetched.length);
      block = fetched;
      blockStart = start;
      count = copyFromBlock(from, target, offset, count);
    }
    statistics.incrementBytesRead(count);
    return count;
  }

  private int copyFromBlock(long from, byte[] target, int offset, int wanted) {
    int start = (int) (from - blockStart);
    int count = Math.min(wanted, block.length - start);
    System.arraycopy(block, start, target, offset, count);
    return count;
  }

  @Override
  public synchronized void seek(long newPosition) throws IOException {
    if (newPosition < 0) {
      throw new EOFException(FSExceptionMessages.NEGATIVE_SEEK + ": " + newPosition);
    }
    if (newPosition > length) {
      throw new EOFException(FSExceptionMessages.CANNOT_SEEK_PAST_EOF + ": " + newPosition + " of " + length);
    }
    position = newPosition;
  }

  @Override
  public synchronized long getPos() {
    return position;
  }

  @Override
  public boolean seekToNewSource(long targetPosition) {
    return false;
  }

  @Override
  public synchronized int available() {
    return (int) Math.min(Integer.MAX_VALUE, length - position);
  }

  @Override
  public synchronized void close() throws IOException {
    closed = true;
    reader.close();
  }
}
