package dev.colocation.spark.plan;

import dev.colocation.spark.plan.RowMerge.RowStream;
import dev.colocation.spark.plan.RowMerge.SortPrefix;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.api.java.function.FlatMapFunction2;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.RowOrdering;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Merges the rows of two partitions, which are both in an order of these columns. */
final class MergeInOrder implements FlatMapFunction2<Iterator<InternalRow>, Iterator<InternalRow>, InternalRow> {
  private static final long serialVersionUID = 1L;

  private final Seq<SortOrder> order;
  private final Seq<Attribute> columns;

  MergeInOrder(Seq<SortOrder> order, Seq<Attribute> columns) {
    this.order = order;
    this.columns = columns;
  }

  @Override
  public Iterator<InternalRow> call(Iterator<InternalRow> first, Iterator<InternalRow> second) {
    SortPrefix prefixes = SortPrefix.of(order, columns);
    Comparator<InternalRow> compared = RowOrdering.create(order, columns);
    return new Rows(new RowMerge(List.of(
        new RowStream(CollectionConverters.asScala(first), prefixes),
        new RowStream(CollectionConverters.asScala(second), prefixes)), compared, prefixes));
  }

  /** A row is valid until the next one. */
  private static final class Rows implements Iterator<InternalRow> {
    private final RowMerge merge;
    private boolean advanced;
    private boolean ended;

    Rows(RowMerge merge) {
      this.merge = merge;
    }

    @Override
    public boolean hasNext() {
      if (!advanced && !ended) {
        advanced = merge.advance();
        ended = !advanced;
      }
      return advanced;
    }

    @Override
    public InternalRow next() {
      if (!hasNext()) {
        throw new NoSuchElementException("all rows were read");
      }
      advanced = false;
      return merge.row();
    }
  }
}
