package dev.colocation.spark.catalog;

import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Function1;

/**
 * A few rows about a table, made on the driver.
 *
 * @param rows with the values of the columns, in their order
 */
record MetadataTable(String name, StructType rowType, Supplier<List<Row>> rows) implements SupportsRead {
  @Override
  public Column[] columns() {
    return Arrays.stream(rowType.fields())
        .map(field -> Column.create(field.name(), field.dataType()))
        .toArray(Column[]::new);
  }

  @Override
  @SuppressWarnings("deprecation") // Spark 4.0 asks for it
  public StructType schema() {
    return rowType;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    OptionsOfReads.take(name, options);
    Scan scan = new LocalScan() {
      @Override
      public StructType readSchema() {
        return rowType;
      }

      @Override
      public InternalRow[] rows() {
        Function1<Object, Object> internal = CatalystTypeConverters.createToCatalystConverter(rowType);
        return rows.get().stream().map(row -> (InternalRow) internal.apply(row)).toArray(InternalRow[]::new);
      }
    };
    return () -> scan;
  }
}
