package dev.colocation.spark.write;

import dev.colocation.spark.write.RowFields.Field;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import org.apache.parquet.column.EncodingStats;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.metadata.ColumnPath;
import org.apache.parquet.hadoop.metadata.ParquetMetadata;

/**
 * The columns of a table whose values repeat so rarely that Parquet's writer has given up their dictionaries. It builds one for each
 * column, and encodes the first page again when it finds that the dictionary saves nothing; for keys, texts and amounts that was
 * more than half of the time of a write. Known to this executor, from the files that it has written.
 */
final class Dictionaries {
  private static final int MAX_TABLES = 1000;
  /** Columns of smaller files teach nothing: their values repeat rarely in any case. */
  static final int LEAST_VALUES = 4096;

  private static final Map<String, Dictionaries> OF_TABLES = Collections.synchronizedMap(new LinkedHashMap<>(16, 0.75f, true) {
    private static final long serialVersionUID = 1L;

    @Override
    protected boolean removeEldestEntry(Map.Entry<String, Dictionaries> eldest) {
      return size() > MAX_TABLES;
    }
  });

  private final Set<String> givenUp = ConcurrentHashMap.newKeySet();

  /** Those of the table whose files this destination takes. */
  static Dictionaries of(Destination destination) {
    return OF_TABLES.computeIfAbsent(destination.namespace() + "/" + destination.directory(), table -> new Dictionaries());
  }

  /** The places of the columns that a dictionary was given up for. */
  int[] givenUp(List<Field> columns) {
    return IntStream.range(0, columns.size()).filter(place -> givenUp.contains(columns.get(place).storedName())).toArray();
  }

  /** Learns from the footer of a file that was written. */
  void learn(ParquetMetadata footer) {
    for (BlockMetaData rowGroup : footer.getBlocks()) {
      for (ColumnChunkMetaData chunk : rowGroup.getColumns()) {
        learn(chunk.getPath(), chunk.getValueCount(), chunk.getEncodingStats());
      }
    }
  }

  /**
   * Learns from a column of a row group; one that was written without trying a dictionary stays as it is known.
   *
   * @param encodings of its pages; null where the writer has not counted them
   */
  void learn(ColumnPath column, long values, EncodingStats encodings) {
    if (values < LEAST_VALUES || encodings == null) {
      return;
    }
    if (encodings.hasDictionaryEncodedPages()) {
      givenUp.remove(column.toDotString());
    } else {
      givenUp.add(column.toDotString());
    }
  }
}
