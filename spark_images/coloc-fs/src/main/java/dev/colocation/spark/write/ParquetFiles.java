package dev.colocation.spark.write;

import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.fs.Manifest;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.Job;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.api.WriteSupport;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.io.OutputFile;
import org.apache.parquet.io.PositionOutputStream;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Map$;
import scala.runtime.AbstractFunction0;

/**
 * Spark's own Parquet writer, with fixed settings for all sessions: zstd, timestamps as INT64 microseconds, dates and times as they
 * are (no rebasing), decimals as integers, page checksums.
 *
 * @param configuration the Hadoop configuration of Spark's writer
 * @param fileBytes after which a file ends
 */
record ParquetFiles(Map<String, String> configuration, long fileBytes) implements Serializable {
  private static final Map<String, String> ALWAYS = Map.of(
      "parquet.compression.codec.zstd.level", "3",
      "spark.sql.parquet.writeLegacyFormat", "false",
      "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS",
      "spark.sql.parquet.fieldId.write.enabled", "false");
  private static final Map<String, String> NO_REBASING = Map.of(
      "spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED",
      "spark.sql.parquet.int96RebaseModeInWrite", "CORRECTED");

  /** The settings of this Spark's own writer, with the fixed ones. */
  static ParquetFiles prepare(StructType schema, long fileBytes) {
    try {
      Job job = Job.getInstance(new Configuration(false));
      new ParquetFileFormat().prepareWrite(SparkSession.active(), job, Map$.MODULE$.empty(), schema);
      Map<String, String> settings = new TreeMap<>();
      job.getConfiguration().iterator().forEachRemaining(entry -> settings.put(entry.getKey(), entry.getValue()));
      settings.putAll(ALWAYS);
      return new ParquetFiles(settings, fileBytes);
    } catch (IOException error) {
      throw new WriteException("Spark's Parquet writer cannot be prepared: " + error.getMessage(), error);
    }
  }

  /**
   * Opens a file.
   *
   * @param withoutDictionary columns that get none, by their names in files
   */
  ParquetWriter<InternalRow> open(OutputFile file, List<String> withoutDictionary) throws IOException {
    Configuration hadoop = new Configuration(false);
    configuration.forEach(hadoop::set);
    SQLConf rebasing = new SQLConf();
    NO_REBASING.forEach(rebasing::setConfString);
    return SQLConf.withExistingConf(rebasing, new AbstractFunction0<ParquetWriter<InternalRow>>() {
      @Override
      public ParquetWriter<InternalRow> apply() {
        return build(file, hadoop, withoutDictionary);
      }
    });
  }

  private ParquetWriter<InternalRow> build(OutputFile file, Configuration hadoop, List<String> withoutDictionary) {
    Builder builder = new Builder(file);
    withoutDictionary.forEach(column -> builder.withDictionaryEncoding(column, false));
    try {
      return builder
          .withConf(hadoop)
          .withCompressionCodec(CompressionCodecName.ZSTD)
          .withRowGroupSize(rowGroupBytes())
          .withPageWriteChecksumEnabled(true)
          .build();
    } catch (IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
  }

  /** Half of a file at most: rows are counted as they are in memory until their row group ends, and are smaller then. */
  private long rowGroupBytes() {
    return Math.min(Manifest.ROW_GROUP_BYTES, Math.max(1, fileBytes / 2));
  }

  private static final class Builder extends ParquetWriter.Builder<InternalRow, Builder> {
    Builder(OutputFile file) {
      super(file);
    }

    @Override
    protected Builder self() {
      return this;
    }

    @Override
    @SuppressWarnings("deprecation") // its successor is of Parquet's configuration, which Spark's writer does not take
    protected WriteSupport<InternalRow> getWriteSupport(Configuration hadoop) {
      return new ParquetWriteSupport();
    }
  }

  /** A file in Spark's local directories. Its digest is computed while it is written, so it need not be read again. */
  static final class LocalFile implements OutputFile {
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

    /** Creates a file; Spark removes its local directories with the application, even if the executor fails. */
    static LocalFile create() {
      return new LocalFile(SparkEnv.get().blockManager().diskBlockManager().createTempLocalBlock()._2().toPath());
    }

    Path path() {
      return path;
    }

    /** The number of bytes written so far. */
    long bytes() {
      return bytes;
    }

    /** The digest, 64 hex digits; called once, when everything is written. */
    String sha256() {
      return HexFormat.of().formatHex(digest.digest());
    }

    /** Removes the file, complete or not. */
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
}
