package dev.colocation.spark.plan;

import dev.colocation.spark.fs.ColocPath;
import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.fs.ManifestStore;
import dev.colocation.spark.fs.Settings;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.datasources.BucketingUtils;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.BinaryType$;
import org.apache.spark.sql.types.BooleanType$;
import org.apache.spark.sql.types.ByteType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType$;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType$;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.ShortType$;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType$;
import org.apache.spark.sql.types.TimestampType$;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * How to read a bucket's files so that its rows come in a wanted order.
 *
 * <p>A file is in one partition, so the partition columns are constant in it, and its rows are sorted by the table's sort
 * columns. Files are taken in the order of the partition columns that the wanted order begins with ({@code leading}). Of files
 * that these do not tell apart, those whose keys do not overlap are read one after the other ({@link FileChains}); others are merged
 * by the columns that follow ({@code merged}).
 *
 * @param leading positions of partition columns in the relation's partition schema
 * @param merged columns of the scan by which chains of files of the same leading values are merged, should there be several
 * @param keyed how many of these, from the first on, are the first sort columns of the files
 * @param keys of the files, by their paths, where a bucket has several of the same leading values
 * @param together how many chains of the same leading values a bucket has at most
 */
record FileOrder(List<Integer> leading, List<AttributeReference> merged, int keyed, Map<String, KeyRange> keys, long together) {
  /** Types whose order is the same on disk and in a query. No fractions: a query may have to normalise -0.0 and NaN. */
  private static final Set<DataType> ORDERED_TYPES = Set.of(
      BooleanType$.MODULE$, ByteType$.MODULE$, ShortType$.MODULE$, IntegerType$.MODULE$, LongType$.MODULE$,
      DateType$.MODULE$, TimestampType$.MODULE$, TimestampNTZType$.MODULE$, StringType$.MODULE$, BinaryType$.MODULE$);

  /** A bucket's files as they are listed. */
  static final FileOrder ANY = new FileOrder(List.of(), List.of(), 0, Map.of(), 1);

  /** The same order for other columns of the scan. */
  FileOrder of(List<AttributeReference> columns) {
    return new FileOrder(leading, columns, keyed, keys, together);
  }

  /**
   * The files of a bucket that have the same leading values. Where a partition column follows the {@code keyed} ones, files that have a
   * key in common are in no chain: the partition decides the order of its rows.
   */
  List<List<PartitionedFile>> chains(List<PartitionedFile> files) {
    return merged.isEmpty() ? List.of(files) : new FileChains<>(this::keysOf, merged.size()).chains(files);
  }

  private KeyRange keysOf(PartitionedFile file) {
    return keys.getOrDefault(path(file), KeyRange.NONE).leading(keyed);
  }

  private static String path(PartitionedFile file) {
    return file.filePath().toString();
  }

  /** Whether files are read side by side. */
  boolean merging() {
    return together > 1;
  }

  /** The order's files, when the table's manifest records that order; empty when nothing is known. */
  static Optional<FileOrder> of(FileSourceScanExec scan, List<AttributeReference> wanted) {
    HadoopFsRelation relation = scan.relation();
    if (!scan.bucketedScan() || !ColocPath.isRootOf(relation)
        || relation.fileFormat().getClass() != ParquetFileFormat.class
        || !wanted.stream().allMatch(column -> isOrdered(column.dataType()) && scan.outputSet().contains(column))) {
      return Optional.empty();
    }
    List<String> partitions = names(relation.partitionSchema());
    List<AttributeReference> distinct = distinct(wanted);
    int leading = 0;
    while (leading < distinct.size() && partitions.contains(name(distinct.get(leading)))) {
      leading++;
    }
    List<AttributeReference> merged = List.copyOf(distinct.subList(leading, distinct.size()));
    Settings settings = settings(scan);
    List<String> sortedBy = sortColumns(scan, partitions, settings);
    List<String> inFile = merged.stream().map(FileOrder::name).filter(name -> !partitions.contains(name)).toList();
    if (inFile.size() > sortedBy.size() || !inFile.equals(sortedBy.subList(0, inFile.size()))) {
      return Optional.empty();
    }
    int keyed = 0;
    while (keyed < merged.size() && !partitions.contains(name(merged.get(keyed)))) {
      keyed++;
    }
    List<Integer> positions =
        distinct.subList(0, leading).stream().map(column -> partitions.indexOf(name(column))).toList();
    return withFiles(scan, new FileOrder(positions, merged, keyed, Map.of(), 1), settings);
  }

  /** The same for rows that only have to be sorted by these columns, whichever of them comes first. */
  static Optional<FileOrder> inAnyOrder(FileSourceScanExec scan, List<AttributeReference> wanted) {
    if (!ColocPath.isRootOf(scan.relation()) || scan.relation().bucketSpec().isEmpty()) {
      return Optional.empty();
    }
    List<String> inFiles = lowerCase(
        CollectionConverters.asJava(scan.relation().bucketSpec().get().sortColumnNames()), List.of());
    // Partition columns are found at no place, -1, so they come first; what is no sort column does, too, and is refused.
    return of(scan, wanted.stream().sorted(Comparator.comparing(column -> inFiles.indexOf(name(column)))).toList());
  }

  /** The order with what is known of the scan's files; empty when too many would have to be merged. */
  private static Optional<FileOrder> withFiles(FileSourceScanExec scan, FileOrder order, Settings settings) {
    if (order.merged.isEmpty()) {
      return Optional.of(order);
    }
    StructType partitionSchema = scan.relation().partitionSchema();
    Map<List<Object>, List<PartitionedFile>> sets = new HashMap<>();
    for (PartitionedFile file : scan.selectedPartitions().toPartitionArray()) {
      Option<Object> bucket = BucketingUtils.getBucketId(file.toPath().getName());
      if (bucket.isEmpty()) {
        return Optional.empty();
      }
      List<Object> key = new ArrayList<>(values(file, order.leading, partitionSchema));
      key.add((int) bucket.get() % CommonBuckets.readBy(scan));
      sets.computeIfAbsent(key, absent -> new ArrayList<>()).add(file);
    }
    sets.values().removeIf(files -> files.size() == 1);
    Map<String, KeyRange> keys = new HashMap<>();
    sets.values().forEach(files -> files.forEach(file -> keys.put(path(file), keys(file, settings))));
    FileOrder known = new FileOrder(order.leading, order.merged, order.keyed, keys, 1);
    List<List<List<PartitionedFile>>> chains = sets.values().stream().map(known::chains).toList();
    long mostBytes = MergeMemory.mostBytes(scan.session().sparkContext().getConf());
    if (!chains.stream().allMatch(ofSet -> MergeMemory.fits(
        ofSet, file -> MergeMemory.heldBytes(file.length(), known.keysOf(file)), mostBytes))) {
      return Optional.empty();
    }
    long together = chains.stream().mapToInt(List::size).max().orElse(1);
    return Optional.of(new FileOrder(order.leading, order.merged, order.keyed, keys, together));
  }

  /** Between which keys a file's rows lie, by the manifest. */
  static KeyRange keys(PartitionedFile file, Settings settings) {
    try {
      Manifest.File found = ManifestStore.file(ColocPath.parse(file.toPath()), settings);
      return found == null ? KeyRange.NONE : found.keys();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** The file's values of the leading partition columns. */
  static List<Object> values(PartitionedFile file, List<Integer> leading, StructType partitionSchema) {
    InternalRow row = file.partitionValues();
    List<Object> values = new ArrayList<>();
    for (int position : leading) {
      values.add(row.get(position, partitionSchema.apply(position).dataType()));
    }
    return values;
  }

  /** Whether each file's rows are sorted by this column first. */
  static boolean isSortedBy(FileSourceScanExec scan, String column) {
    return scan.relation().fileFormat().getClass() == ParquetFileFormat.class
        && sortColumns(scan, names(scan.relation().partitionSchema()), settings(scan)).stream().findFirst()
            .filter(column.toLowerCase(Locale.ROOT)::equals).isPresent();
  }

  static Settings settings(FileSourceScanExec scan) {
    return new Settings(scan.session().sessionState().newHadoopConfWithOptions(scan.relation().options()));
  }

  /** What manifest and registered table agree on: the one knows how files were written, the other how columns are called. */
  private static List<String> sortColumns(FileSourceScanExec scan, List<String> partitions, Settings settings) {
    List<String> registered = lowerCase(
        CollectionConverters.asJava(scan.relation().bucketSpec().get().sortColumnNames()), partitions);
    Manifest manifest = manifest(scan, settings);
    if (manifest == Manifest.EMPTY) {
      return registered;
    }
    List<String> written = lowerCase(manifest.sortedBy(), partitions);
    int common = 0;
    while (common < Math.min(registered.size(), written.size()) && registered.get(common).equals(written.get(common))) {
      common++;
    }
    return written.subList(0, common);
  }

  private static Manifest manifest(FileSourceScanExec scan, Settings settings) {
    try {
      return ManifestStore.get(ColocPath.parse(scan.relation().location().rootPaths().head()), settings);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static List<String> lowerCase(List<String> columns, List<String> without) {
    return columns.stream().map(column -> column.toLowerCase(Locale.ROOT)).filter(column -> !without.contains(column)).toList();
  }

  /** Whether values of this type are sorted in files as in a query. */
  static boolean isOrdered(DataType type) {
    return ORDERED_TYPES.contains(type) || type instanceof DecimalType;
  }

  /** Without repetitions: a column that came before decides nothing any more. */
  private static List<AttributeReference> distinct(List<AttributeReference> columns) {
    Set<Object> seen = new HashSet<>();
    return columns.stream().filter(column -> seen.add(column.exprId())).toList();
  }

  private static List<String> names(StructType schema) {
    return IntStream.range(0, schema.size()).mapToObj(index -> schema.apply(index).name().toLowerCase(Locale.ROOT)).toList();
  }

  private static String name(AttributeReference column) {
    return column.name().toLowerCase(Locale.ROOT);
  }
}
