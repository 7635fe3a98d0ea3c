package dev.colocation.spark.catalog;

import dev.colocation.spark.catalog.ReadAsFiles.StreamAsFiles;
import dev.colocation.spark.catalog.StreamOffset.Position;
import dev.colocation.spark.catalog.StreamOptions.StreamStart;
import dev.colocation.spark.cluster.ClusterView;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.KubernetesApi;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.Timer;
import java.time.Duration;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/**
 * A table as the source of a stream: the rows of its snapshot when the stream began, then those that its commits append. Chooses
 * the files of each micro-batch; {@link ReadAsFiles.StreamAsFiles} reads them as those of any query.
 */
final class TableStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  /** The pause between checks for new commits; a stream without a trigger checks a hundred times a second. */
  private static final Duration PAUSE = Duration.ofMillis(250);

  /** A commit's appended files are the difference of two snapshots. */
  private static final int MOST_MANIFESTS = 2;

  private final LoadedTable analyzed;
  private final KubernetesApi api;
  private final TableLoader loader;
  private final StreamOptions options;
  private final Timer clock = Timer.REAL;
  private final Map<String, SortedMap<String, Long>> manifests = Collections.synchronizedMap(
      new LinkedHashMap<>(MOST_MANIFESTS, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, SortedMap<String, Long>> eldest) {
          return size() > MOST_MANIFESTS;
        }
      });
  private long last = Long.MAX_VALUE;
  private Optional<Long> idleSinceNanos = Optional.empty();

  TableStream(LoadedTable analyzed, KubernetesApi api, StreamOptions options) {
    this.analyzed = analyzed;
    this.api = api;
    loader = new TableLoader(analyzed.catalog());
    this.options = options;
  }

  @Override
  public Offset initialOffset() {
    return StreamOffset.begin(folder(analyzed.object()));
  }

  @Override
  public Offset deserializeOffset(String json) {
    return StreamOffset.parse(json);
  }

  /** With this trigger a stream reads the rows that are committed when it starts, and ends. */
  @Override
  public void prepareForTriggerAvailableNow() {
    last = object(new ClusterView(api)).snapshot().map(Snapshot::id).orElse(0L);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return options.limit();
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark asks with a limit");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    StreamOffset from = StreamOffset.of(start);
    if (idleSinceNanos.isPresent() && !clock.sleep(pause(idleSinceNanos.get()))) {
      return from;
    }
    ClusterView view = new ClusterView(api);
    ColocatedTable object = object(view);
    requireSameTable(from, object);
    Position begin = from.position().orElseGet(
        () -> new StreamStart(analyzed.name(), kept(object), options, api.now()).position());
    AppendedFiles.Share share = limit instanceof ReadAllAvailable ? AppendedFiles.Share.ALL : new Room(options);
    Position end = appended(view, object).after(begin, share).end();
    boolean isIdle = from.position().isPresent() && end.equals(begin);
    idleSinceNanos = isIdle ? Optional.of(clock.nanos()) : Optional.empty();
    return isIdle ? from : from.to(begin, end);
  }

  private Duration pause(long since) {
    Duration left = PAUSE.minusNanos(clock.nanos() - since);
    return left.isNegative() ? Duration.ZERO : left;
  }

  /**
   * The rows of a micro-batch.
   *
   * @param output columns as the stream's query has them
   */
  LogicalPlan rows(Offset start, Offset end, List<AttributeReference> output) {
    StreamOffset to = StreamOffset.of(end);
    ClusterView view = new ClusterView(api);
    ColocatedTable object = object(view);
    requireSameTable(to, object);
    Position begin = StreamOffset.of(start).position().or(to::firstBegin).orElseThrow();
    AppendedFiles.Batch batch = appended(view, object).between(begin, to.position().orElseThrow());
    if (batch.paths().isEmpty()) {
      return FilesRelation.nothing(output);
    }
    Snapshot snapshot = object.ofVersion(String.valueOf(batch.end().snapshot()));
    return FilesRelation.appended(loader.older(view, object, snapshot), analyzed, batch, output, this);
  }

  private AppendedFiles appended(ClusterView view, ColocatedTable object) {
    return new AppendedFiles(
        analyzed.name(), kept(object), snapshot -> manifests.computeIfAbsent(
            snapshot.manifestSha256(), manifest -> TableLoader.files(view, object, snapshot)), options.skipsChanges());
  }

  /** Kept snapshots, the oldest first. */
  private List<Snapshot> kept(ColocatedTable object) {
    return object.snapshots().stream().filter(one -> one.id() <= last)
        .sorted(Comparator.comparingLong(Snapshot::id)).toList();
  }

  private ColocatedTable object(ClusterView view) {
    ColocatedTable analyzed = this.analyzed.object();
    ColocatedTable object = view.table(analyzed.namespace(), analyzed.name()).orElseThrow(
        () -> new ColocationException("table " + this.analyzed.name() + " was dropped since the stream began").unchecked());
    object.requireRecovered();
    object.requireSnapshots();
    return object;
  }

  private void requireSameTable(StreamOffset offset, ColocatedTable object) {
    if (!offset.folder().equals(folder(object))) {
      throw new ColocationException("the stream's checkpoint is of table " + offset.folder() + ", and " + analyzed.name() + " is now "
          + folder(object) + ": it is another table, or was dropped and recreated. Begin with a new checkpoint").unchecked();
    }
  }

  private static String folder(ColocatedTable object) {
    return object.namespace() + "/" + object.directory();
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    throw ColocationTable.withoutExtensions(analyzed.name());
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    throw ColocationTable.withoutExtensions(analyzed.name());
  }

  @Override
  public void commit(Offset end) {}

  @Override
  public void stop() {}

  /** Shown in Spark's reports on the stream's progress. */
  @Override
  public String toString() {
    return analyzed.name();
  }

  /** Limits one micro-batch; it always takes one file. */
  private static final class Room implements AppendedFiles.Share {
    private final StreamOptions options;
    private long files;
    private long bytes;

    Room(StreamOptions options) {
      this.options = options;
    }

    @Override
    public int of(long snapshot, long behind, List<Map.Entry<String, Long>> found) {
      int count = 0;
      while (count < found.size() && files < options.mostFiles().orElse(Long.MAX_VALUE)
          && bytes < options.mostBytes().orElse(Long.MAX_VALUE)) {
        bytes += found.get(count).getValue();
        files++;
        count++;
      }
      return count;
    }
  }
}
