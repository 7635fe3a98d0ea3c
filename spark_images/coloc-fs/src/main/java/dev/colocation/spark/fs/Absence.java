package dev.colocation.spark.fs;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.NoSuchFileException;

/**
 * Collects what was said of one file. Where every place says that it has none, the file is gone, which another attempt does not
 * change; while one is away, nobody knows.
 */
final class Absence {
  /** For error messages: why files go, and what to do. */
  static final String CAUSE = "Its table was dropped while the query ran (`colocation recover` brings it back), or its snapshot is "
      + "older than the table's retention keeps: run the query again. If that fails too, copies were lost: see the group's "
      + "unstable buckets: kubectl get colocationgroups -o wide";

  private boolean isSaid;
  private boolean isDenied;

  /** One more place failed to give the file. */
  void add(IOException failure) {
    boolean isAbsent = failure instanceof NoSuchFileException || failure instanceof FileNotFoundException
        || failure instanceof AgentRefused refused && refused.isNotThere();
    isSaid |= isAbsent;
    isDenied |= !isAbsent;
  }

  /** Whether all places that were asked, and at least one was, have no such file. */
  boolean isCertain() {
    return isSaid && !isDenied;
  }
}
