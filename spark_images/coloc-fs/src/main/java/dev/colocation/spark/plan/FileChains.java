package dev.colocation.spark.plan;

import dev.colocation.spark.fs.KeyRange;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.function.Function;

/**
 * Which sorted files of a bucket have keys in common. Files whose keys do not overlap are read one after the other, as one file would
 * be; others side by side.
 *
 * @param keys of a file
 * @param columns by how many of the table's sort columns rows are wanted in order
 */
public record FileChains<F>(Function<F, KeyRange> keys, int columns) {
  private record Chain<F>(List<F> files, KeyRange last) {}

  /**
   * The files in the fewest chains, each to be read one file after the other; a file whose keys are unknown is one by itself.
   * (Interval partitioning: there are as many chains as files overlap at most.)
   */
  public List<List<F>> chains(List<F> files) {
    List<List<F>> found = new ArrayList<>();
    files.stream().filter(file -> !isKnown(file)).forEach(file -> found.add(List.of(file)));
    Comparator<List<Object>> order = order(files);
    PriorityQueue<Chain<F>> chains = new PriorityQueue<>(Comparator.comparing((Chain<F> chain) -> chain.last().last(), order));
    for (F file : sorted(files)) {
      KeyRange range = keys.apply(file);
      Chain<F> first = chains.peek();
      if (first != null && first.last().isBefore(range, columns)) {
        chains.poll().files().add(file);
        chains.add(new Chain<>(first.files(), range));
      } else {
        List<F> begun = new ArrayList<>(List.of(file));
        found.add(begun);
        chains.add(new Chain<>(begun, range));
      }
    }
    return found;
  }

  /**
   * The files in groups whose keys do not overlap, in the order of their keys; all in one group when those of a file are unknown.
   */
  public List<List<F>> groups(List<F> files) {
    if (!files.stream().allMatch(this::isKnown)) {
      return List.of(files);
    }
    Comparator<List<Object>> order = order(files);
    List<List<F>> found = new ArrayList<>();
    KeyRange greatest = KeyRange.NONE;
    for (F file : sorted(files)) {
      KeyRange range = keys.apply(file);
      if (found.isEmpty() || greatest.isBefore(range, columns)) {
        found.add(new ArrayList<>());
        greatest = range;
      }
      found.get(found.size() - 1).add(file);
      greatest = order.compare(greatest.last(), range.last()) < 0 ? range : greatest;
    }
    return found;
  }

  private boolean isKnown(F file) {
    return keys.apply(file).columns() > 0;
  }

  private List<F> sorted(List<F> files) {
    Comparator<List<Object>> order = order(files);
    return files.stream().filter(this::isKnown).sorted(Comparator.comparing((F file) -> keys.apply(file).first(), order)
        .thenComparing(file -> keys.apply(file).last(), order)).toList();
  }

  /** By the columns that are known of all files of which any are. */
  private Comparator<List<Object>> order(List<F> files) {
    int known = files.stream().map(keys).mapToInt(KeyRange::columns).filter(count -> count > 0).min().orElse(0);
    return (one, other) -> {
      for (int column = 0; column < Math.min(columns, known); column++) {
        int compared = KeyRange.compare(one.get(column), other.get(column));
        if (compared != 0) {
          return compared;
        }
      }
      return 0;
    };
  }
}
