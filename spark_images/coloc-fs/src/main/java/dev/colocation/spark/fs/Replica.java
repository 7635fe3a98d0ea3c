package dev.colocation.spark.fs;

import java.io.Closeable;
import java.io.IOException;

/** One copy of a file. Not safe to share between threads. */
public interface Replica extends Closeable {
  /** For error messages: where the copy lies. */
  String place();

  /** How many bytes are fetched at once when less is asked for. */
  int blockBytes();

  /** Whether it lies on this node's disk. */
  boolean isLocal();

  /**
   * Reads at least one byte, at most {@code length}.
   *
   * @throws IOException when nothing could be read
   */
  int read(long position, byte[] target, int offset, int length) throws IOException;
}
