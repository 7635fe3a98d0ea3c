package dev.colocation.spark.catalog;

import dev.colocation.spark.fs.ColocPath;
import dev.colocation.spark.fs.KeyRange;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.fs.ManifestStore;
import dev.colocation.spark.fs.Settings;
import dev.colocation.spark.plan.FileKeys;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.function.IntPredicate;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
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
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Leaves out files before they are opened: those in which no row can fulfil a query's conditions on the first sort column, by the keys
 * in the manifest.
 */
final class FilesByKey {
  private final Path root;
  private final Settings settings;

  /**
   * For the files of a snapshot.
   *
   * @param root of all of them
   */
  FilesByKey(Path root, Configuration configuration) {
    this.root = root;
    settings = new Settings(configuration);
  }

  /**
   * The files that may have rows.
   *
   * @param conditions all of which a row fulfils; columns have their names in files
   */
  Seq<PartitionDirectory> chosen(Seq<PartitionDirectory> listed, Seq<Expression> conditions) {
    if (conditions.isEmpty()) {
      return listed;
    }
    String column = sortColumn();
    // Almost no file has NULL keys only, and Spark adds this condition to every join.
    List<Expression> onColumn = CollectionConverters.asJava(conditions).stream()
        .filter(condition -> !(condition instanceof IsNotNull))
        .filter(condition -> condition.references().exists(found -> found.name().equalsIgnoreCase(column))).toList();
    return onColumn.isEmpty() ? listed : FilesRelation.sequence(CollectionConverters.asJava(listed).stream()
        .map(folder -> folder.copy(folder.values(), FilesRelation.sequence(CollectionConverters.asJava(folder.files()).stream()
            .filter(file -> mayHold(file, column, onColumn)).toList())))
        .toList());
  }

  /** By which files are sorted first; empty when there is none. */
  private String sortColumn() {
    try {
      Manifest manifest = ManifestStore.get(ColocPath.parse(root), settings);
      return manifest.sortedBy().stream()
          .filter(name -> manifest.partitionedBy().stream().noneMatch(name::equalsIgnoreCase)).findFirst().orElse("");
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private boolean mayHold(FileStatusWithMetadata file, String column, List<Expression> conditions) {
    try {
      Manifest.File found = ManifestStore.file(ColocPath.parse(file.getPath()), settings);
      return found == null || found.keys().columns() == 0
          || conditions.stream().allMatch(condition -> mayBeTrue(condition, column, found.keys()));
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
      return key == null || isWithin(low, key, high);
    });
  }

  private static boolean isWithin(Object low, Object key, Object high) {
    return KeyRange.compare(low, key) <= 0 && KeyRange.compare(key, high) <= 0;
  }

  private static boolean mayBeTrue(BinaryComparison comparison, String column, Object low, Object high) {
    boolean isFlipped = isColumn(comparison.right(), column);
    Expression one = isFlipped ? comparison.right() : comparison.left();
    Object key = isColumn(one, column) ? key(literal(isFlipped ? comparison.left() : comparison.right()), one.dataType()) : null;
    if (key == null) {
      return true;
    }
    if (comparison instanceof EqualTo || comparison instanceof EqualNullSafe) {
      return isWithin(low, key, high);
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

  /** A literal as keys have it; null for NULL, and for what they do not have. */
  private static Object key(Literal literal, DataType type) {
    return literal != null && literal.dataType().equals(type) && FileKeys.isKnown(type) ? FileKeys.key(literal.value()) : null;
  }
}
