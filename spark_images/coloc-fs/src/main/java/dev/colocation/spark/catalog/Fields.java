package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.Product;

/** Spark's plans by the names of fields and methods, since versions add fields and parameters, so that signatures differ. */
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

  /** Calls a method of a Scala object. Later versions have more parameters; {@code false} is as in the oldest. */
  static Object call(Object singleton, String name, Object... given) {
    Method method = Stream.of(singleton.getClass().getMethods()).filter(one -> one.getName().equals(name)).findFirst().orElseThrow();
    Object[] arguments = Arrays.copyOf(given, method.getParameterCount());
    Arrays.fill(arguments, given.length, arguments.length, false);
    try {
      return method.invoke(singleton, arguments);
    } catch (IllegalAccessException error) {
      throw new ColocationException("this Spark has another " + name + " than those known: " + error, error).unchecked();
    } catch (InvocationTargetException error) {
      throw ColocationException.unchecked(error.getCause());
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
