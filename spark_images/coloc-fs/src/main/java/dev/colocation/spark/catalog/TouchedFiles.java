package dev.colocation.spark.catalog;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.errors.QueryExecutionErrors$;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.roaringbitmap.RoaringBitmap;

/**
 * The files in which rows change, and how many, as found by {@link RowChangeQueries#changed}. Tasks send bitmaps of row numbers,
 * so the driver needs no shuffle to find a row that matches in several tasks.
 */
final class TouchedFiles {
  /** No file. */
  static final TouchedFiles NONE = new TouchedFiles();

  private static final StructType FOUND = new StructType()
      .add("file", DataTypes.StringType).add("stays", DataTypes.BinaryType).add("updated", DataTypes.BinaryType)
      .add("deleted", DataTypes.BinaryType).add("twice", DataTypes.BooleanType);

  private final Map<String, Rows> byFile = new LinkedHashMap<>();

  /** Row numbers in one file, by what becomes of them. */
  private static final class Rows {
    private final List<RoaringBitmap> ofActions = List.of(new RoaringBitmap(), new RoaringBitmap(), new RoaringBitmap());
    private boolean twice;

    void add(long row, int action) {
      int place = Math.toIntExact(row);
      twice |= ofActions.stream().anyMatch(rows -> rows.contains(place));
      ofActions.get(action).add(place);
    }

    void add(Rows others) {
      for (RoaringBitmap own : ofActions) {
        twice |= others.ofActions.stream().anyMatch(other -> RoaringBitmap.intersects(own, other));
      }
      for (int action = 0; action < ofActions.size(); action++) {
        ofActions.get(action).or(others.ofActions.get(action));
      }
      twice |= others.twice;
    }

    Row sent(String file) {
      return RowFactory.create(file, bytes(ofActions.get(RowChangeQueries.STAYS)), bytes(ofActions.get(RowChangeQueries.UPDATED)),
          bytes(ofActions.get(RowChangeQueries.DELETED)), twice);
    }

    static Rows received(Row row) {
      Rows rows = new Rows();
      for (int action = 0; action < rows.ofActions.size(); action++) {
        read(rows.ofActions.get(action), row.getAs(action + 1));
      }
      rows.twice = row.getBoolean(rows.ofActions.size() + 1);
      return rows;
    }

    private static byte[] bytes(RoaringBitmap rows) {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      try {
        rows.runOptimize();
        rows.serialize(new DataOutputStream(bytes));
      } catch (IOException error) {
        throw new IllegalStateException("an array takes all bytes", error);
      }
      return bytes.toByteArray();
    }

    private static void read(RoaringBitmap rows, byte[] bytes) {
      try {
        rows.deserialize(new DataInputStream(new ByteArrayInputStream(bytes)));
      } catch (IOException error) {
        throw new IllegalStateException("bitmaps are sent as a whole", error);
      }
    }
  }

  private static final class OfTask implements MapPartitionsFunction<Row, Row> {
    private static final long serialVersionUID = 1L;

    @Override
    public Iterator<Row> call(Iterator<Row> rows) {
      Map<String, Rows> found = new LinkedHashMap<>();
      while (rows.hasNext()) {
        Row row = rows.next();
        found.computeIfAbsent(row.getString(0), file -> new Rows()).add(row.getLong(1), row.getInt(2));
      }
      List<Row> sent = new ArrayList<>();
      found.forEach((file, ofFile) -> sent.add(ofFile.sent(file)));
      return sent.iterator();
    }
  }

  /**
   * Runs the query.
   *
   * @param takesOneMatchOnly whether a row that is found twice is an error
   */
  static TouchedFiles find(Dataset<Row> changed, boolean takesOneMatchOnly) {
    TouchedFiles touched = new TouchedFiles();
    for (Row row : changed.mapPartitions(new OfTask(), Encoders.row(FOUND)).collectAsList()) {
      Rows rows = Rows.received(row);
      Rows known = touched.byFile.putIfAbsent(row.getString(0), rows);
      if (known != null) {
        known.add(rows);
      }
    }
    if (takesOneMatchOnly && touched.byFile.values().stream().anyMatch(rows -> rows.twice)) {
      throw QueryExecutionErrors$.MODULE$.mergeCardinalityViolationError();
    }
    touched.byFile.values().removeIf(rows -> rows.ofActions.get(RowChangeQueries.UPDATED).isEmpty()
        && rows.ofActions.get(RowChangeQueries.DELETED).isEmpty());
    return touched;
  }

  /** Paths as in {@code _metadata.file_path}. */
  List<String> files() {
    return List.copyOf(byFile.keySet());
  }

  long updated() {
    return count(RowChangeQueries.UPDATED);
  }

  long deleted() {
    return count(RowChangeQueries.DELETED);
  }

  /** Rows of a file that are deleted. */
  long deleted(String file) {
    return byFile.get(file).ofActions.get(RowChangeQueries.DELETED).getLongCardinality();
  }

  private long count(int action) {
    return byFile.values().stream().mapToLong(rows -> rows.ofActions.get(action).getLongCardinality()).sum();
  }
}
