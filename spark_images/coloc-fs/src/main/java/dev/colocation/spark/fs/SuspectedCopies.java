package dev.colocation.spark.fs;

import dev.colocation.spark.fs.Replica.RemoteReplica;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.apache.spark.TaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Chooses the copies for a repeated task. Its previous attempt may have failed on wrong bytes of a disk: Spark checks the pages'
 * checksums above the file system, which does not know the failed copy. So each copy's own agent checks the file before it is
 * read again; a damaged file is quarantined and replaced.
 */
public final class SuspectedCopies {
  private static final Logger LOG = LoggerFactory.getLogger(SuspectedCopies.class);
  static final String NODE_VARIABLE = "SPARK_EXECUTOR_ATTRIBUTE_NODE_NAME";

  private SuspectedCopies() {}

  /** Whether this thread runs a task that failed before. */
  public static boolean isRepeatedTask() {
    TaskContext task = TaskContext.get();
    return task != null && task.attemptNumber() > 0;
  }

  /**
   * The copies in the order in which they are read: this node's first only if its agent has just found it undamaged.
   *
   * @param copies the copy on this node's disk, if there is one, and each node's as its agent gives it
   * @param thisNode see {@link Settings#node}
   */
  public static List<Replica> ordered(List<Replica> copies, String thisNode) {
    boolean isLocalWhole = ofNode(copies, thisNode).map(SuspectedCopies::isWhole).orElse(false);
    List<Replica> ordered = new ArrayList<>();
    for (Replica copy : copies) {
      ordered.add(copy instanceof RemoteReplica remote ? new Checked(remote) : copy);
    }
    // Stable: what was the better order among the nodes stays so.
    ordered.sort(Comparator.comparing(copy -> copy.isLocal() != isLocalWhole));
    return ordered;
  }

  /** Lets this node's agent look at a file that could not be read from the disk; no one waits for the answer. */
  static void reportUnreadable(List<Replica> copies) {
    ofNode(copies, System.getenv(NODE_VARIABLE)).ifPresent(copy -> CompletableFuture.runAsync(() -> isWhole(copy)));
  }

  private static Optional<RemoteReplica> ofNode(List<Replica> copies, String node) {
    return copies.stream()
        .filter(RemoteReplica.class::isInstance)
        .map(RemoteReplica.class::cast)
        .filter(copy -> copy.node().equals(node))
        .findFirst();
  }

  /** Whether the agent has looked and found no damage; an agent that does not say so leaves the copy suspected. */
  private static boolean isWhole(RemoteReplica copy) {
    try {
      boolean damaged = copy.checkForDamage();
      if (damaged) {
        LOG.warn("{} found its copy of {} damaged, and has set it aside", copy.place(), copy.target());
      }
      return !damaged;
    } catch (IOException error) {
      LOG.warn("{} did not check its copy of {}: {}", copy.place(), copy.target(), error.getMessage());
      return false;
    }
  }

  /** A node's copy that its agent looks at before the first read; a damaged one is not given by the agent any more. */
  private static final class Checked implements Replica {
    private final RemoteReplica copy;
    private boolean asked;

    Checked(RemoteReplica copy) {
      this.copy = copy;
    }

    @Override
    public String place() {
      return copy.place();
    }

    @Override
    public int blockBytes() {
      return copy.blockBytes();
    }

    @Override
    public boolean isLocal() {
      return false;
    }

    @Override
    public int read(long position, byte[] target, int offset, int length) throws IOException {
      if (!asked) {
        asked = true;
        isWhole(copy);
      }
      return copy.read(position, target, offset, length);
    }

    @Override
    public void close() {
      copy.close();
    }
  }
}
