package dev.colocation.spark.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.colocation.spark.plan.RowMerge.RowStream;
import dev.colocation.spark.plan.RowMerge.SortPrefix;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType$;
import org.apache.spark.sql.types.LongType$;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.RepetitionInfo;
import org.junit.jupiter.api.Test;
import scala.jdk.javaapi.CollectionConverters;

/** Sorted streams become one sorted stream, with every row of each. */
final class RowMergeTest {
  private static final Comparator<Long> NULL_FIRST = Comparator.nullsFirst(Comparator.naturalOrder());
  private static final Comparator<InternalRow> BY_NUMBER = Comparator.comparing(RowMergeTest::number, NULL_FIRST);

  @RepeatedTest(100)
  void anyStreamsAreMerged(RepetitionInfo repetition) {
    Random random = new Random(repetition.getCurrentRepetition());
    List<List<Long>> streams = IntStream.range(0, random.nextInt(9)).mapToObj(stream -> numbers(random)).toList();
    List<Long> expected = streams.stream().flatMap(List::stream).sorted(NULL_FIRST).toList();
    assertEquals(expected, merged(streams, LongType$.MODULE$), "with prefixes");
    assertEquals(expected, merged(streams, DoubleType$.MODULE$), "by comparison alone");
  }

  @Test
  void smallestNumberAndNullDiffer() {
    List<Long> both = new ArrayList<>();
    both.add(null);
    both.add(Long.MIN_VALUE);
    List<Long> expected = new ArrayList<>(both);
    expected.add(1, null);
    expected.add(Long.MIN_VALUE);
    assertEquals(expected, merged(List.of(both, both), LongType$.MODULE$));
  }

  private static List<Long> numbers(Random random) {
    List<Long> numbers = new ArrayList<>();
    for (int count = random.nextInt(20); count > 0; count--) {
      numbers.add(random.nextInt(5) == 0 ? null : (long) random.nextInt(-9, 9));
    }
    numbers.sort(NULL_FIRST);
    return numbers;
  }

  private static List<Long> merged(List<List<Long>> streams, DataType type) {
    SortPrefix prefixes = new SortPrefix(0, type, true);
    List<RowStream> rows = streams.stream().map(stream -> rows(stream, prefixes)).toList();
    RowMerge merge = new RowMerge(rows, BY_NUMBER, prefixes);
    List<Long> found = new ArrayList<>();
    while (merge.advance()) {
      found.add(number(merge.row()));
    }
    return found;
  }

  private static RowStream rows(List<Long> numbers, SortPrefix prefixes) {
    List<Object> rows = new ArrayList<>();
    numbers.forEach(number -> rows.add(new GenericInternalRow(new Object[] {number})));
    return new RowStream(CollectionConverters.asScala(rows.iterator()), prefixes);
  }

  private static Long number(InternalRow row) {
    return row.isNullAt(0) ? null : Long.valueOf(row.getLong(0));
  }
}
