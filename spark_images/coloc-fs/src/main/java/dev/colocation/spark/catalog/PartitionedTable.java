package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.TableLayout;
import dev.colocation.spark.cluster.Types;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.write.PartitionText;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsAtomicPartitionManagement;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Implements {@code SHOW PARTITIONS}, {@code ALTER TABLE … DROP PARTITION} and {@code TRUNCATE TABLE … PARTITION}. */
abstract class PartitionedTable implements SupportsAtomicPartitionManagement {
  abstract LoadedTable loaded();

  /** Drops partitions, by texts of their columns, with all rows that are in them at the commit. */
  abstract void dropAll(List<Map<String, String>> partitions);

  @Override
  public StructType partitionSchema() {
    StructType schema = new StructType();
    for (Manifest.Column column : partitionColumns()) {
      schema = schema.add(column.storedName(), Types.parse(column.type()));
    }
    return schema;
  }

  private List<Manifest.Column> partitionColumns() {
    TableLayout layout = loaded().layout();
    return layout.partitionedBy().stream().map(layout::column).toList();
  }

  /** The text of a row's value. */
  private String text(InternalRow given, int place, Manifest.Column column) {
    DataType type = Types.parse(column.type());
    return given.isNullAt(place) ? null : PartitionText.of(Types.padded(given.get(place, type), column), type);
  }

  @Override
  public InternalRow[] listPartitionIdentifiers(String[] names, InternalRow given) {
    StructType schema = partitionSchema();
    List<InternalRow> found = new ArrayList<>();
    for (TablePartitions.Found partition : TablePartitions.of(loaded())) {
      boolean fits = true;
      for (int index = 0; index < names.length; index++) {
        Manifest.Column column = partitionColumns().get(schema.fieldIndex(names[index]));
        fits &= Objects.equals(text(given, index, column), partition.partition().get(column.storedName()));
      }
      if (fits) {
        found.add(new GenericInternalRow(
            Arrays.stream(schema.fields()).map(field -> partition.value(field.name(), field.dataType())).toArray()));
      }
    }
    return found.toArray(InternalRow[]::new);
  }

  @Override
  public boolean dropPartitions(InternalRow[] given) {
    dropAll(Arrays.stream(given).map(this::texts).toList());
    return true;
  }

  /** A missing partition is no error. */
  @Override
  public boolean truncatePartition(InternalRow given) {
    return dropPartitions(new InternalRow[] {given});
  }

  @Override
  public boolean truncatePartitions(InternalRow[] given) {
    return dropPartitions(given);
  }

  private Map<String, String> texts(InternalRow given) {
    List<Manifest.Column> columns = partitionColumns();
    Map<String, String> texts = new TreeMap<>();
    for (int index = 0; index < columns.size(); index++) {
      texts.put(columns.get(index).storedName(), text(given, index, columns.get(index)));
    }
    return texts;
  }

  /** {@code SHOW TABLE EXTENDED … PARTITION}. */
  @Override
  public Map<String, String> loadPartitionMetadata(InternalRow given) {
    Map<String, String> texts = texts(given);
    return TablePartitions.of(loaded()).stream().filter(found -> found.partition().equals(texts)).findFirst()
        .map(found -> Map.of("files", "" + found.files(), "rows", "" + found.rows(), "bytes", "" + found.bytes()))
        .orElse(Map.of());
  }

  @Override
  public void createPartitions(InternalRow[] given, Map<String, String>[] properties) {
    throw refused("ADD PARTITION", "a partition is there as soon as it has rows: INSERT INTO … PARTITION (…)");
  }

  @Override
  public void replacePartitionMetadata(InternalRow given, Map<String, String> properties) {
    throw refused("properties of a partition", "leave them out");
  }

  @Override
  public boolean renamePartition(InternalRow from, InternalRow to) {
    throw refused("PARTITION … RENAME", "INSERT the rows of the partition into the other one, then drop it");
  }

  private RuntimeException refused(String statement, String otherwise) {
    return new ColocationException(loaded().name() + " does not take " + statement + "; " + otherwise).unchecked();
  }
}
