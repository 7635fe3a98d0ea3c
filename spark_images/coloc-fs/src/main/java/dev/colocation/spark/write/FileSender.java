package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.fs.AgentClient.Folder;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Sends files to the nodes of their buckets. Safe to share between threads.
 *
 * <p>Whatever a failed, killed or speculative attempt sent is named after that attempt, is in no manifest, and is collected as
 * garbage.
 */
public final class FileSender {
  private final Destination destination;
  private final Folder folder;
  private final Agents agents;

  public FileSender(Destination destination) {
    this.destination = destination;
    folder = new Folder(destination.namespace(), destination.directory());
    agents = new Agents(destination.agents(), destination.access());
  }

  /**
   * Sends a file to all nodes of its bucket, and to substitutes for those that do not take it.
   *
   * @param content a local file of {@code file.bytes()} bytes
   * @throws ReplicasMissing when a majority did not take it
   * @throws IOException when the content cannot be read, or the thread was interrupted
   */
  public SentFile send(DataFile file, Path content) throws IOException {
    List<String> nodes = destination.buckets().get(file.bucket());
    Map<String, String> failures = new LinkedHashMap<>(Copies.putOn(agents, folder, nodes, file, content));
    List<String> holders = new ArrayList<>(nodes);
    holders.removeAll(failures.keySet());
    for (String substitute : Copies.substitutesFor(destination.buckets(), file.bucket())) {
      if (holders.size() == nodes.size()) {
        break;
      }
      Map<String, String> failed = Copies.putOn(agents, folder, List.of(substitute), file, content);
      failures.putAll(failed);
      if (failed.isEmpty()) {
        holders.add(substitute);
      }
    }
    int wanted = Copies.majority(nodes.size());
    if (holders.size() < wanted) {
      String said = failures.entrySet().stream()
          .map(failure -> failure.getKey() + ": " + failure.getValue()).collect(Collectors.joining("; "));
      throw new ReplicasMissing("bucket " + file.bucket() + " of " + folder + ": " + holders.size() + " of " + nodes.size()
          + " nodes took " + file.path() + ", at least " + wanted + " must, and no other node of the group did instead; "
          + said);
    }
    return new SentFile(file, holders);
  }
}
