package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import java.lang.reflect.InvocationTargetException;
import java.util.Map;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.Product;

/** Reads and changes fields of Spark's plans by name, since versions of Spark add fields, so that constructors and copy methods differ. */
final class Fields {
  private Fields() {}

  /** The value of a field. */
  static Object get(Product node, String name) {
    return node.productElement(position(node, name));
  }

  /** A copy of the node with other values in some fields. */
  @SuppressWarnings("unchecked")
  static <T extends Product> T with(T node, Map<String, Object> changed) {
    Object[] values = new Object[node.productArity()];
    for (int field = 0; field < values.length; field++) {
      values[field] = changed.getOrDefault(node.productElementName(field), node.productElement(field));
    }
    if (node instanceof TreeNode<?> tree) {
      return (T) tree.makeCopy(values);
    }
    try {
      return (T) node.getClass().getConstructors()[0].newInstance(values);
    } catch (InstantiationException | IllegalAccessException | InvocationTargetException error) {
      throw unknown(node, error.toString());
    }
  }

  private static int position(Product node, String name) {
    for (int field = 0; field < node.productArity(); field++) {
      if (node.productElementName(field).equals(name)) {
        return field;
      }
    }
    throw unknown(node, "no field " + name);
  }

  private static RuntimeException unknown(Product node, String what) {
    return new ColocationException("this Spark has another " + node.productPrefix() + " than those known: " + what).unchecked();
  }
}
