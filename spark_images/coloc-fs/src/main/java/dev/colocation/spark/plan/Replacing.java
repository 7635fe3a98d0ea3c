package dev.colocation.spark.plan;

import java.util.function.Function;
import scala.runtime.AbstractPartialFunction;

/** What stands in the place of a tree's nodes of one class, as Spark's {@code transform} takes it. */
public final class Replacing<T, N> extends AbstractPartialFunction<T, T> {
  private static final long serialVersionUID = 1L;

  private final transient Class<N> nodes;
  private final transient Function<N, ? extends T> replacement;

  private Replacing(Class<N> nodes, Function<N, ? extends T> replacement) {
    this.nodes = nodes;
    this.replacement = replacement;
  }

  /** {@code replacement} gives the node itself where it stays. */
  public static <T, N> Replacing<T, N> each(Class<N> nodes, Function<N, ? extends T> replacement) {
    return new Replacing<>(nodes, replacement);
  }

  @Override
  public boolean isDefinedAt(T node) {
    return nodes.isInstance(node);
  }

  @Override
  public T apply(T node) {
    return replacement.apply(nodes.cast(node));
  }
}
