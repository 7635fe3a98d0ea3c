package dev.colocation.spark.catalog;

import dev.colocation.spark.fs.ColocPath;
import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.fs.ManifestStore;
import dev.colocation.spark.fs.Settings;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.function.IntPredicate;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StringType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Leaves out files before they are opened: those in which no row can fulfil a query's conditions on the first sort column, by the keys
 * in the manifest.
 */
final class FilesByKey {
  private final Settings settings;
  private final List<Expression> conditions;

  private FilesByKey(Settings settings, List<Expression> conditions) {
    this.settings = settings;
    this.conditions = conditions;
  }

  /**
   * The files that may have rows.
   *
   * @param conditions all of which a row fulfils; columns have their names in files
   */
  static Seq<PartitionDirectory> of(Seq<PartitionDirectory> listed, Seq<Expression> conditions, Configuration configuration) {
    FilesByKey files = new FilesByKey(new Settings(configuration), CollectionConverters.asJava(conditions));
    return files.conditions.isEmpty() ? listed
        : FilesRelation.sequence(CollectionConverters.asJava(listed).stream().map(files::chosen).toList());
  }

  private PartitionDirectory chosen(PartitionDirectory folder) {
    List<FileStatusWithMetadata> files = CollectionConverters.asJava(folder.files());
    return folder.copy(folder.values(), FilesRelation.sequence(files.stream().filter(this::mayHold).toList()));
  }

  private boolean mayHold(FileStatusWithMetadata file) {
    try {
      ColocPath path = ColocPath.parse(file.getPath());
      Manifest.File found = ManifestStore.file(path, settings);
      if (found == null || found.keys().columns() == 0) {
        return true;
      }
      Manifest manifest = ManifestStore.get(path, settings);
      String column = manifest.sortedBy().stream()
          .filter(name -> manifest.partitionedBy().stream().noneMatch(name::equalsIgnoreCase)).findFirst().orElseThrow();
      return conditions.stream().allMatch(condition -> mayBeTrue(condition, column, found.keys()));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Whether a condition can be true for a key of the file; true for what is not understood. */
  static boolean mayBeTrue(Expression condition, String column, KeyRange keys) {
    Object low = keys.first().get(0);
    Object high = keys.last().get(0);
    if (condition instanceof And and) {
      return mayBeTrue(and.left(), column, keys) && mayBeTrue(and.right(), column, keys);
    }
    if (condition instanceof Or or) {
      return mayBeTrue(or.left(), column, keys) || mayBeTrue(or.right(), column, keys);
    }
    if (condition instanceof IsNull is) {
      return !isColumn(is.child(), column) || low == null;
    }
    if (condition instanceof IsNotNull is) {
      return !isColumn(is.child(), column) || high != null;
    }
    if (condition instanceof In in && isColumn(in.value(), column)) {
      return in(CollectionConverters.asJava(in.list()).stream().map(FilesByKey::literal), in.value().dataType(), low, high);
    }
    if (condition instanceof InSet in && isColumn(in.child(), column)) {
      DataType type = in.child().dataType();
      return in(CollectionConverters.asJava(in.hset()).stream().map(value -> new Literal(value, type)), type, low, high);
    }
    return !(condition instanceof BinaryComparison comparison) || mayBeTrue(comparison, column, low, high);
  }

  private static boolean in(Stream<Literal> values, DataType type, Object low, Object high) {
    return values.anyMatch(value -> {
      Object key = key(value, type);
      return key == null || KeyRange.compare(low, key) <= 0 && KeyRange.compare(key, high) <= 0;
    });
  }

  private static boolean mayBeTrue(BinaryComparison comparison, String column, Object low, Object high) {
    boolean isFlipped = isColumn(comparison.right(), column);
    Expression one = isFlipped ? comparison.right() : comparison.left();
    Object key = isColumn(one, column) ? key(literal(isFlipped ? comparison.left() : comparison.right()), one.dataType()) : null;
    if (key == null) {
      return true;
    }
    boolean isAbove = KeyRange.compare(key, high) > 0;
    boolean isBelow = KeyRange.compare(low, key) > 0;
    if (comparison instanceof EqualTo || comparison instanceof EqualNullSafe) {
      return !isAbove && !isBelow;
    }
    IntPredicate less = comparison instanceof LessThan || comparison instanceof GreaterThan ? order -> order < 0 : order -> order <= 0;
    boolean isUpTo = isFlipped ? comparison instanceof GreaterThan || comparison instanceof GreaterThanOrEqual
        : comparison instanceof LessThan || comparison instanceof LessThanOrEqual;
    return isUpTo ? less.test(KeyRange.compare(low, key)) : less.test(KeyRange.compare(key, high));
  }

  private static boolean isColumn(Expression expression, String column) {
    return expression instanceof AttributeReference reference && reference.name().equalsIgnoreCase(column);
  }

  private static Literal literal(Expression expression) {
    return expression instanceof Literal literal ? literal : null;
  }

  /** A literal as manifests have it; null for NULL, and for what they do not have. */
  private static Object key(Literal literal, DataType type) {
    if (literal == null || literal.value() == null || !literal.dataType().equals(type)) {
      return null;
    }
    Object value = literal.value();
    if (value instanceof Decimal decimal) {
      return decimal.precision() <= Decimal.MAX_LONG_DIGITS() ? (Object) decimal.toUnscaledLong() : null;
    }
    return value instanceof Number number && !(number instanceof Double || number instanceof Float) ? (Object) number.longValue()
        : type instanceof StringType ? value.toString() : null;
  }
}
