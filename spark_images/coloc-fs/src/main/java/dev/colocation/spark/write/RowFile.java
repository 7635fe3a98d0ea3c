package dev.colocation.spark.write;

import dev.colocation.spark.plan.MergeMemory;
import dev.colocation.spark.write.FileWriterTask.FilePlan;
import dev.colocation.spark.write.ParquetFiles.LocalFile;
import dev.colocation.spark.write.RowFields.Field;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * A Parquet file that is being written. A column has no dictionary where an earlier file of the table gave it up ({@link
 * Dictionaries}), and where this file's first rows have no repeated values either.
 */
final class RowFile {
  private final FilePlan plan;
  private final LocalFile content = LocalFile.create();
  private final Dictionaries known;
  private final int[] inQuestion;
  private FirstRows first = new FirstRows();
  private ParquetWriter<InternalRow> writer;

  RowFile(FilePlan plan) {
    this.plan = plan;
    known = Dictionaries.of(plan.destination());
    inQuestion = known.givenUp(plan.fields().inFiles());
  }

  LocalFile content() {
    return content;
  }

  void write(InternalRow row) throws IOException {
    if (writer != null) {
      writer.write(row);
    } else if (inQuestion.length == 0 || !first.add(row)) {
      open();
      if (inQuestion.length == 0) {
        writer.write(row);
      }
    }
  }

  private void open() throws IOException {
    List<Field> columns = plan.fields().inFiles();
    List<String> distinct = Arrays.stream(inQuestion).filter(place -> first.isDistinct(place, columns.get(place)))
        .mapToObj(place -> columns.get(place).storedName()).toList();
    writer = plan.parquet().open(content, distinct);
    for (InternalRow row : first.rows()) {
      writer.write(row);
    }
    first = new FirstRows();
  }

  /** Bytes so far, as far as they are known. */
  long bytes() {
    return writer == null ? first.bytes() : writer.getDataSize();
  }

  /** Memory that it takes at most. */
  long heldBytes() {
    return MergeMemory.heldBytes(bytes());
  }

  /** Completes the file. */
  void close() throws IOException {
    try {
      if (writer == null) {
        open();
      }
      writer.close();
    } catch (IOException | RuntimeException error) {
      content.delete();
      throw error;
    }
    known.learn(writer.getFooter());
  }
}
