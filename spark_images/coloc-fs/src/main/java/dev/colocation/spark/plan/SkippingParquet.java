package dev.colocation.spark.plan;

import java.util.function.BooleanSupplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** Parquet files of which row groups and pages are left out below a key that is known only when a file is opened. */
public final class SkippingParquet extends ParquetFileFormat {
  private static final long serialVersionUID = 1L;

  private final String key;

  /** {@code key}: the column as Spark's filters name it. */
  SkippingParquet(String key) {
    this.key = key;
  }

  /** The scan, of files whose rows may be left out. */
  static FileSourceScanExec in(FileSourceScanExec scan, AttributeReference key) {
    HadoopFsRelation relation = scan.relation();
    String name = DataSourceStrategy$.MODULE$.translateFilter(new IsNotNull(key), true).get().references()[0];
    return (FileSourceScanExec) PlanFields.with(scan, "relation", new HadoopFsRelation(
        relation.location(), relation.partitionSchema(), relation.dataSchema(), relation.bucketSpec(), new SkippingParquet(name),
        relation.options(), relation.sparkSession()));
  }

  @Override
  public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
      SparkSession session, StructType dataSchema, StructType partitionSchema, StructType requiredSchema, Seq<Filter> filters,
      Map<String, String> options, Configuration hadoopConf) {
    @SuppressWarnings("unchecked") // Java does not see the element types of Scala's collections
    Seq<Filter> all = (Seq<Filter>) filters.appended(new AtLeast(key));
    return super.buildReaderWithPartitionValues(session, dataSchema, partitionSchema, requiredSchema, all, options, hadoopConf);
  }

  /** Does what may open files, whose rows below this key are not needed; null = all are. */
  static boolean from(Object least, BooleanSupplier reading) {
    Object before = AtLeast.LEAST.get();
    AtLeast.LEAST.set(least);
    try {
      return reading.getAsBoolean();
    } finally {
      AtLeast.LEAST.set(before);
    }
  }

  /** A filter whose value is looked up when Spark translates it for a file; without one it names no column, so Spark leaves it out. */
  private static final class AtLeast extends GreaterThanOrEqual {
    private static final long serialVersionUID = 1L;
    private static final ThreadLocal<Object> LEAST = new ThreadLocal<>();

    AtLeast(String key) {
      super(key, null);
    }

    @Override
    public String attribute() {
      return LEAST.get() == null ? "" : super.attribute();
    }

    @Override
    public Object value() {
      return LEAST.get();
    }
  }
}
