package dev.colocation.spark.fs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkEnv;

/**
 * A file by which an application and the agents authenticate each other. Only the application's configuration names the file.
 * Sessions cannot name it: any user has a session on a Thrift or Spark Connect server, and could have any file of the driver sent
 * as a token.
 */
public enum CredentialFile {
  TOKEN("spark.colocation.tokenFile", Settings.TOKEN_FILE, Settings.DEFAULT_TOKEN_FILE),
  AUTHORITY("spark.colocation.caFile", Settings.AUTHORITY_FILE, Settings.DEFAULT_AUTHORITY_FILE);

  private static final String HADOOP_PREFIX = "spark.hadoop.";

  private final String key;
  private final String option;
  private final String usual;

  CredentialFile(String key, String option, String usual) {
    this.key = key;
    this.option = option;
    this.usual = usual;
  }

  /** The setting for users. */
  public String key() {
    return key;
  }

  /** The option of the file system. */
  public String option() {
    return option;
  }

  /** Where this JVM's application has it; drivers and executors have the same configuration. */
  public String ofApplication() {
    SparkEnv environment = environment();
    return environment == null ? usual : of(key -> environment.conf().get(key, ""));
  }

  private static SparkEnv environment() {
    try {
      return SparkEnv.get();
    } catch (NoClassDefFoundError error) {
      // Spark is not here: a program that uses Hadoop alone.
      return null;
    }
  }

  /** Why a session's value is refused; empty when it is none, or the application's. */
  public String refusal(String ofSession) {
    return refusal(ofSession, ofApplication());
  }

  String refusal(String ofSession, String ofApplication) {
    String given = ofSession.trim();
    return given.isEmpty() || given.equals(ofApplication) ? "" : key + "='" + given + "' of this session is not allowed; only "
        + "the application's configuration names the file that is read, here '" + ofApplication + "'. RESET " + key
        + ", or start the application with --conf " + key + "=…";
  }

  /** Where an application with this configuration has it; its values by key, empty = none. */
  String of(UnaryOperator<String> conf) {
    return Stream.of(key, HADOOP_PREFIX + option).map(name -> conf.apply(name).trim()).filter(value -> !value.isEmpty())
        .findFirst().orElse(usual);
  }

  /** Of the file system; without a Spark application, Hadoop's configuration has it. */
  Path in(Configuration configuration) {
    return Path.of(environment() == null ? configuration.getTrimmed(option, usual) : ofApplication());
  }

  /**
   * A small file that is renewed from outside (a projected token, a CA), parsed again whenever it has changed.
   *
   * @param <T> what the file is parsed into
   */
  static final class RenewedFile<T> {
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
}
