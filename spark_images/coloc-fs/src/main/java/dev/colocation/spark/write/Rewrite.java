package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import java.util.List;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeSet;

/**
 * A compaction: the rows of exactly these files, in other files. It goes on top of loads that were committed meanwhile, as
 * long as every file that it read is still committed.
 *
 * @param replaced paths of the files that were read
 * @param buckets number of buckets that the files were made for
 */
public record Rewrite(Set<String> replaced, List<DataFile> files, int buckets) implements Change {
  public Rewrite {
    replaced = Set.copyOf(replaced);
    files = List.copyOf(files);
  }

  @Override
  public String label() {
    return "compact";
  }

  @Override
  public OptionalInt madeForBuckets() {
    return OptionalInt.of(buckets);
  }

  @Override
  public boolean keepsFiles() {
    return true;
  }

  @Override
  public List<DataFile> kept(List<DataFile> committed) throws Overtaken {
    TreeSet<String> gone = new TreeSet<>(replaced);
    committed.forEach(file -> gone.remove(file.path()));
    if (!gone.isEmpty()) {
      throw new Overtaken(gone.size() + " of the " + replaced.size()
          + " files that it read are no longer committed, e.g. " + gone.first());
    }
    return committed.stream().filter(file -> !replaced.contains(file.path())).toList();
  }

  /** Whether its files are still there {@link #kept} says. */
  @Override
  public void checkOvertaking(List<DataFile> beganOn, List<DataFile> committed) {}
}
