package dev.colocation.spark.fs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;

/**
 * A small file that someone else renews (a projected token, a CA), parsed again whenever it has changed.
 *
 * @param <T> what the file is parsed into
 */
final class RenewedFile<T> {
  /** Turns the file's content into a value. */
  interface Parser<T> {
    T parse(byte[] content) throws IOException;
  }

  /** Identifies one content; the kubelet swaps a symlink, so the file's key changes too. */
  private record Version(Object key, FileTime modified, long bytes) {}

  private final Path path;
  private final Parser<T> parser;
  private Version version;
  private T value;

  RenewedFile(Path path, Parser<T> parser) {
    this.path = path;
    this.parser = parser;
  }

  /**
   * The value of the file as it stands now.
   *
   * @throws IOException when the file cannot be read or parsed
   */
  synchronized T get() throws IOException {
    BasicFileAttributes attributes = Files.readAttributes(path, BasicFileAttributes.class);
    Version current = new Version(attributes.fileKey(), attributes.lastModifiedTime(), attributes.size());
    if (!current.equals(version)) {
      value = parser.parse(Files.readAllBytes(path));
      version = current;
    }
    return value;
  }
}
