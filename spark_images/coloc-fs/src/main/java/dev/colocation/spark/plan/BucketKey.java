package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.FileSourceScanExec;
import scala.jdk.javaapi.CollectionConverters;

/** The first bucket column of a scan. */
final class BucketKey {
  private static final String FILTERS = "dataFilters";

  private BucketKey() {}

  /** The column in what the scan reads; empty if it reads it not. */
  static Optional<Attribute> of(FileSourceScanExec scan) {
    String name = scan.relation().bucketSpec().get().bucketColumnNames().head();
    return CollectionConverters.asJava(scan.output()).stream().filter(column -> column.name().equals(name)).findFirst();
  }

  /** The scan of rows that also fulfil these conditions, as far as files, row groups and pages tell. */
  static FileSourceScanExec filtered(FileSourceScanExec scan, List<Expression> conditions) {
    List<Expression> all = new ArrayList<>(CollectionConverters.asJava(scan.dataFilters()));
    all.addAll(conditions);
    return (FileSourceScanExec) PlanFields.with(scan, FILTERS, CollectionConverters.asScala(all).toSeq());
  }
}
