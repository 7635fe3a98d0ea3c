package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * A load. An append goes on top of whatever was committed meanwhile. An overwrite that was overtaken has lost; one of
 * partitions has lost only if files came or went in those that it replaces.
 *
 * @param files all of it
 * @param buckets number of buckets that the files were made for
 * @param replaced of {@link Mode#OVERWRITE_MATCHING}, and of no other mode: each entry replaces every partition that has its
 *     values, and new files must lie in one of them
 */
public record NewFiles(Mode mode, List<DataFile> files, int buckets, Optional<List<Map<String, String>>> replaced)
    implements Change {

  public NewFiles {
    files = List.copyOf(files);
    if (replaced.isPresent() != (mode == Mode.OVERWRITE_MATCHING)) {
      throw new IllegalArgumentException("mode " + mode.label() + (replaced.isPresent() ? " takes no" : " needs")
          + " partitions to replace");
    }
    for (DataFile file : files) {
      if (replaced.isPresent() && !Change.isIn(file, replaced.get())) {
        throw new SchemaMismatch("rows are in partition " + file.partition() + ", which is none of those that are replaced: "
            + replaced.get() + ". Filter them, or name their partition in the condition");
      }
    }
  }

  public NewFiles(Mode mode, List<DataFile> files, int buckets) {
    this(mode, files, buckets, Optional.empty());
  }

  @Override
  public String label() {
    return mode.label();
  }

  @Override
  public OptionalInt madeForBuckets() {
    return OptionalInt.of(buckets);
  }

  @Override
  public boolean keepsFiles() {
    return mode != Mode.OVERWRITE;
  }

  @Override
  public List<DataFile> kept(List<DataFile> committed) {
    Predicate<DataFile> goes = replaces();
    return committed.stream().filter(file -> !goes.test(file)).toList();
  }

  @Override
  public void checkOvertaking(List<DataFile> beganOn, List<DataFile> committed) throws Overtaken {
    Predicate<DataFile> goes = replaces();
    Set<Map<String, String>> hit = new LinkedHashSet<>();
    inOneOnly(beganOn, committed).stream().filter(goes).forEach(file -> hit.add(file.partition()));
    if (mode != Mode.OVERWRITE && !hit.isEmpty()) {
      String example = hit.iterator().next().entrySet().stream()
          .map(value -> value.getKey() + "=" + value.getValue()).collect(Collectors.joining(", "));
      throw new Overtaken(
          hit.size() + " of the partitions that it replaces were changed meanwhile, e.g. " + example);
    }
  }

  @Override
  public Map<String, Integer> padded(Map<String, Integer> declared, Map<String, Integer> before, List<DataFile> kept) {
    return kept.isEmpty() ? declared : before;
  }

  /** Which committed files go. */
  private Predicate<DataFile> replaces() {
    Set<Map<String, String>> own = new HashSet<>();
    files.forEach(file -> own.add(file.partition()));
    return switch (mode) {
      case APPEND -> file -> false;
      case OVERWRITE -> file -> true;
      case OVERWRITE_PARTITIONS -> file -> own.contains(file.partition());
      case OVERWRITE_MATCHING -> file -> Change.isIn(file, replaced.orElseThrow());
    };
  }

  /** Files that came or went. */
  private static List<DataFile> inOneOnly(List<DataFile> beganOn, List<DataFile> committed) {
    Map<String, DataFile> found = new LinkedHashMap<>();
    beganOn.forEach(file -> found.put(file.path(), file));
    for (DataFile file : committed) {
      if (found.remove(file.path()) == null) {
        found.put(file.path(), file);
      }
    }
    return List.copyOf(found.values());
  }
}
