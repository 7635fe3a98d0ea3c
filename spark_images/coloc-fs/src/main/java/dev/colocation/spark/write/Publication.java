package dev.colocation.spark.write;

import com.fasterxml.jackson.databind.JsonNode;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.cluster.WriteException.NoAgentAnswers;
import dev.colocation.spark.cluster.WriteException.ReplicasMissing;
import dev.colocation.spark.fs.AgentClient.Folder;
import dev.colocation.spark.fs.AgentFailure;
import dev.colocation.spark.write.Copies.Parallel;
import dev.colocation.spark.write.FileSender.SentFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Puts on the nodes what must be there before a commit: files on their buckets' nodes, the manifest everywhere. */
final class Publication {
  private static final Logger LOG = LoggerFactory.getLogger(Publication.class);

  private final Destination destination;
  private final Folder folder;
  private final Agents agents;
  /** Agents that new files are copied from. */
  private final Agents sources;

  /**
   * The published manifest, and where copies are.
   *
   * @param manifest in the format that the agents read
   * @param replicasMissing copies of new files that are not on the map's nodes
   * @param substitutes the nodes that hold copies instead
   */
  record Published(NextManifest manifest, int replicasMissing, List<Substitute> substitutes) {}

  /**
   * A node's report on the manifest.
   *
   * @param report TableReport of the agents' API; null when the agent did not return it
   * @param why it cannot
   * @param isUnread the agent has stored the manifest but does not find it, since it does not read its format
   */
  private record Outcome(JsonNode report, String why, boolean isUnread) {
    Outcome(JsonNode report) {
      this(report, "", false);
    }

    boolean hasManifest() {
      return report != null && report.path("manifestPresent").asBoolean();
    }

    boolean isComplete(int bucket) {
      return bucket(bucket).path("state").asText().equals("complete");
    }

    String said(int bucket) {
      if (report == null) {
        return why;
      }
      JsonNode held = bucket(bucket);
      return held.isObject()
          ? "holds " + held.path("filesHeld").asInt() + " of " + held.path("filesWanted").asInt() + " files"
          : "holds nothing of it";
    }

    private JsonNode bucket(int bucket) {
      return report.path("buckets").path(String.valueOf(bucket));
    }
  }

  /** @param destination by the present map */
  Publication(Destination destination) {
    this(destination, Map.of());
  }

  /**
   * Publishes a change.
   *
   * @param destination by the map of now
   * @param agentsBefore URLs by node when the change began: its files may be on nodes that have left the group since
   */
  Publication(Destination destination, Map<String, String> agentsBefore) {
    this.destination = destination;
    folder = new Folder(destination.namespace(), destination.directory());
    agents = new Agents(destination.agents(), destination.access());
    Map<String, String> urls = new TreeMap<>(agentsBefore);
    urls.putAll(destination.agents());
    sources = new Agents(urls, destination.access());
  }

  /** Reads a manifest of the table from any agent that has it. */
  StoredManifest read(String sha256) throws IOException {
    return agents.firstAnswer("manifest " + sha256 + " of " + folder, agents.nodes(),
        (agent, retry) -> StoredManifest.decode(agent.read(folder, manifestPath(sha256), retry), sha256));
  }

  private static String manifestPath(String sha256) {
    return "manifests/" + sha256 + ".json.zst";
  }

  /**
   * Copies new files to nodes that took over their buckets while the change was made. A moved bucket's old node deletes its
   * files, including new ones, so the new node must have them before the commit.
   *
   * @param before the map by which they were sent
   * @throws NoAgentAnswers when no node has a file any longer
   */
  void followMap(List<List<String>> before, List<SentFile> sent) throws IOException {
    for (SentFile one : sent) {
      int bucket = one.file().bucket();
      List<String> nodes = destination.buckets().get(bucket).stream()
          .filter(node -> !before.get(bucket).contains(node) && !one.nodes().contains(node)).toList();
      if (!nodes.isEmpty()) {
        copy(one.file(), one.nodes(), nodes);
      }
    }
  }

  /**
   * Sends the manifest to all nodes of the group, checks which new files they hold, and finds substitutes for a bucket's missing
   * copies.
   *
   * @throws ReplicasMissing when fewer nodes than a majority of a bucket's replicas hold the manifest and the bucket's new files;
   *     also of a bucket without new files, so that the manifest of an emptied table is not lost
   */
  Published publish(NextManifest manifest, List<SentFile> sent) throws IOException {
    Map<String, Outcome> outcomes = putEverywhere(manifest);
    Optional<NextManifest> older = manifest.inFormat1();
    if (older.isPresent() && outcomes.values().stream().anyMatch(Outcome::isUnread)) {
      LOG.warn("agents of {} do not read manifests of format 2 yet; format 1 is written",
          outcomes.entrySet().stream().filter(said -> said.getValue().isUnread()).map(Map.Entry::getKey).toList());
      return publish(older.get(), sent);
    }
    int missing = 0;
    List<Substitute> substitutes = new ArrayList<>();
    Map<Integer, List<SentFile>> byBucket = sent.stream().collect(Collectors.groupingBy(one -> one.file().bucket()));
    for (int bucket = 0; bucket < destination.buckets().size(); bucket++) {
      BucketCopies copies = new BucketCopies(outcomes, bucket, byBucket.getOrDefault(bucket, List.of()));
      copies.find();
      missing += copies.away.size() * copies.sent.size();
      substitutes.addAll(copies.substitutes);
    }
    return new Published(manifest, missing, List.copyOf(substitutes));
  }

  private Map<String, Outcome> putEverywhere(NextManifest manifest) throws IOException {
    TreeSet<String> nodes = new TreeSet<>();
    destination.buckets().forEach(nodes::addAll);
    return Parallel.on(nodes, node -> put(node, manifest));
  }

  private Outcome put(String node, NextManifest manifest) throws IOException {
    if (!agents.nodes().contains(node)) {
      return new Outcome(null, Copies.NOT_READY, false);
    }
    try {
      String path = manifestPath(manifest.sha256());
      agents.ask(node, (agent, retry) -> {
        agent.putBytes(folder, path, manifest.stored(), manifest.sha256(), retry);
        return node;
      });
      return new Outcome(agents.ask(node, (agent, retry) -> agent.verify(folder, manifest.sha256(), retry)));
    } catch (AgentFailure failure) {
      return new Outcome(null, failure.getMessage(), failure.isNotFound());
    }
  }

  /** Copies a file from a node that has it, a ready one if possible, to others; returns the nodes that failed, with the reason. */
  private Map<String, String> copy(DataFile file, Collection<String> holders, Collection<String> nodes) throws IOException {
    Path content = Files.createTempFile("colocation-write-", ".parquet");
    try {
      List<String> known = holders.stream().filter(sources.nodes()::contains)
          .sorted(Comparator.comparing(node -> !agents.nodes().contains(node))).toList();
      sources.firstAnswer(file.path(), known, (agent, retry) -> {
        agent.copy(folder, file.path(), content, file.sha256(), retry);
        return file;
      });
      return Copies.putOn(agents, folder, nodes, file, content);
    } finally {
      Files.deleteIfExists(content);
    }
  }

  /** Finds the nodes that hold the manifest and all new files of one bucket. */
  private final class BucketCopies {
    private final Map<String, Outcome> outcomes;
    private final int bucket;
    private final List<SentFile> sent;
    private final List<String> row;
    /** The row's nodes that lack some of these. The operator repairs missing files of earlier loads. */
    private final List<String> away = new ArrayList<>();
    private final List<Substitute> substitutes = new ArrayList<>();

    BucketCopies(Map<String, Outcome> outcomes, int bucket, List<SentFile> sent) {
      this.outcomes = outcomes;
      this.bucket = bucket;
      this.sent = sent;
      row = destination.buckets().get(bucket);
    }

    /** Finds the copies, and makes substitutes for the row's missing copies. */
    void find() throws IOException {
      List<String> holders = new ArrayList<>();
      for (String node : row) {
        (holds(node) ? holders : away).add(node);
      }
      List<String> left = new ArrayList<>(away);
      for (String node : Copies.substitutesFor(destination.buckets(), bucket)) {
        if (!left.isEmpty() && standsIn(node, holders)) {
          holders.add(node);
          String absent = left.remove(0);
          if (!sent.isEmpty()) {
            substitutes.add(new Substitute(bucket, absent, node, sent.size(), outcomes.get(absent).said(bucket)));
          }
        }
      }
      int wanted = Copies.majority(row.size());
      if (holders.size() < wanted) {
        throw new ReplicasMissing("bucket " + bucket + " of " + folder + ": " + holders.size() + " of its " + row.size()
            + " nodes hold the manifest and the new files, at least " + wanted
            + " must, and no other node of the group does instead; "
            + Copies.byReason(said()));
      }
    }

    /** What each node of the row answered. */
    private Map<String, String> said() {
      Map<String, String> said = new LinkedHashMap<>();
      row.forEach(node -> said.put(node, outcomes.get(node).said(bucket)));
      return said;
    }

    /** Whether a node holds the manifest and the new files. */
    private boolean holds(String node) throws IOException {
      Outcome outcome = outcomes.get(node);
      if (!outcome.hasManifest()) {
        return false;
      }
      if (sent.isEmpty() || outcome.isComplete(bucket)) {
        return true;
      }
      try {
        for (SentFile one : sent) {
          String held = agents.ask(node, (agent, retry) -> agent.sha256Of(folder, one.file().path(), retry));
          if (!held.equals(one.file().sha256())) {
            return false;
          }
        }
        return true;
      } catch (AgentFailure failure) {
        return false;
      }
    }

    /** Whether a node outside the row holds all of them, after missing files were copied to it. */
    private boolean standsIn(String node, List<String> holders) throws IOException {
      if (!outcomes.get(node).hasManifest()) {
        return false;
      }
      try {
        for (SentFile one : sent) {
          List<String> having = new ArrayList<>(holders);
          one.nodes().stream().filter(other -> !holders.contains(other)).forEach(having::add);
          if (!one.nodes().contains(node) && !copy(one.file(), having, List.of(node)).isEmpty()) {
            return false;
          }
        }
      } catch (NoAgentAnswers error) {
        return false;
      }
      return holds(node);
    }
  }
}
