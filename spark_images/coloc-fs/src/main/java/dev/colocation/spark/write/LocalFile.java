package dev.colocation.spark.write;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import org.apache.parquet.io.OutputFile;
import org.apache.parquet.io.PositionOutputStream;
import org.apache.spark.SparkEnv;

/** A file in Spark's local directories, whose digest is of the bytes that were written: it need not be read again. */
final class LocalFile implements OutputFile {
  private final Path path;
  private final MessageDigest digest;
  private OutputStream file = OutputStream.nullOutputStream();
  private long bytes;

  LocalFile(Path path) {
    this.path = path;
    try {
      digest = MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException("every Java has SHA-256", error);
    }
  }

  /** A new one; Spark removes its local directories with the application, whatever becomes of the executor. */
  static LocalFile create() {
    return new LocalFile(SparkEnv.get().blockManager().diskBlockManager().createTempLocalBlock()._2().toPath());
  }

  Path path() {
    return path;
  }

  /** Of what was written so far. */
  long bytes() {
    return bytes;
  }

  /** 64 hex digits; asked once, when all is written. */
  String sha256() {
    return HexFormat.of().formatHex(digest.digest());
  }

  /** Removes it, whether it is complete or not. */
  void delete() {
    try {
      file.close();
      Files.deleteIfExists(path);
    } catch (IOException error) {
      // Spark removes its local directories with the application.
      path.toFile().deleteOnExit();
    }
  }

  @Override
  public PositionOutputStream create(long blockSizeHint) throws IOException {
    file = new FileOutputStream(path.toFile());
    return new PositionOutputStream() {
      @Override
      public long getPos() {
        return bytes;
      }

      @Override
      public void write(int value) throws IOException {
        write(new byte[] {(byte) value}, 0, 1);
      }

      @Override
      public void write(byte[] block, int offset, int length) throws IOException {
        file.write(block, offset, length);
        digest.update(block, offset, length);
        bytes += length;
      }

      @Override
      public void close() throws IOException {
        file.close();
      }
    };
  }

  @Override
  public PositionOutputStream createOrOverwrite(long blockSizeHint) throws IOException {
    return create(blockSizeHint);
  }

  @Override
  public boolean supportsBlockSize() {
    return false;
  }

  @Override
  public long defaultBlockSize() {
    return 0;
  }
}
