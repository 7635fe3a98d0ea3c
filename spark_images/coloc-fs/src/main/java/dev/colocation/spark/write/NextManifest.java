package dev.colocation.spark.write;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.github.luben.zstd.Zstd;
import dev.colocation.spark.cluster.ChangeCounts;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.SchemaEvolution;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.StoredManifest;
import dev.colocation.spark.cluster.TypeNames;
import dev.colocation.spark.cluster.WriteException;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.fs.ManifestEncoder;
import dev.colocation.spark.fs.ManifestHeader;
import dev.colocation.spark.write.Change.Overtaken;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;

/**
 * The manifest after a change.
 *
 * @param stored zstd-compressed JSON, of many files by bucket (format 2)
 * @param sha256 digest of the stored form, 64 hex digits
 * @param snapshot its record in the table's status, without the time
 * @param removed the committed files that the change removes, as far as it reads them
 * @param framedText the JSON of a manifest in format 2; empty in format 1
 */
record NextManifest(
    long snapshotId, byte[] stored, String sha256, ObjectNode snapshot, List<DataFile> removed, Optional<byte[]> framedText) {
  private static final int LEVEL = 9;
  /** Of larger manifests, agents would refuse the many values. */
  private static final int MOST_FILES_WITH_KEYS = StoredManifest.MAX_FILES / 2;
  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * The manifest of a change on top of a committed one, with a random id, so that no other commit has the same one.
   *
   * @param parent empty before the first load, and for a change that keeps no file
   * @throws WriteException.LoadConflict when the committed files have another layout or other types than the new ones; or files
   * that the change began on are no longer committed
   * @throws WriteException.InvalidTable when the table's status is invalid, so that its files are unknown
   */
  static NextManifest of(ColocatedTable table, Optional<StoredManifest> parent, Change change) {
    if (change.keepsFiles()) {
      table.requireStatus();
    }
    List<DataFile> committed = parent.map(StoredManifest::files).orElse(List.of());
    Buckets buckets = change.madeForBuckets().orElseGet(() -> parent.map(StoredManifest::buckets).orElseThrow(
        () -> new WriteException.LoadConflict("table " + table.fullName() + " holds no rows yet; nothing was changed")));
    if (!committed.isEmpty() && change.keepsFiles()) {
      refuseOtherLayout(table, parent.get(), change.rebuckets() ? parent.get().buckets() : buckets);
    }
    try {
      List<DataFile> kept = change.kept(committed);
      checkNewFiles(table, change, kept, buckets);
      ObjectNode header = header(table, buckets, padded(table, parent, change, kept));
      List<DataFile> removed = removed(committed, kept);
      return encoded(table, header, parent, kept, change.files(), counts(table, change, removed), buckets).removing(removed);
    } catch (Overtaken error) {
      throw overtaken(table, change, error.getMessage());
    }
  }

  static WriteException.LoadConflict overtaken(ColocatedTable table, Change change, String why) {
    return new WriteException.LoadConflict("table " + table.fullName() + ": " + change.label() + " was overtaken: "
        + why + ". Nothing was changed; start it again");
  }

  static void refuseOtherLayout(ColocatedTable table, StoredManifest parent, Buckets buckets) {
    List<String> problems = new ArrayList<>();
    differ(problems, "buckets", parent.buckets(), buckets);
    differ(problems, "bucketedBy", parent.names("bucketedBy"), table.layout().bucketedBy());
    differ(problems, "partitionedBy", parent.names("partitionedBy"), table.layout().partitionedBy());
    differ(problems, "sortedBy", parent.names("sortedBy"), table.layout().sortedBy());
    String columns = SchemaEvolution.refusedChange(parent.columns(), table.layout().columns());
    if (!columns.isEmpty()) {
      problems.add("its files do not fit the table's columns: " + columns);
    }
    if (!problems.isEmpty()) {
      throw new WriteException.LoadConflict("table " + table.fullName() + ": " + String.join("; ", problems)
          + ". Change the table back, or reload all of it with mode overwrite");
    }
  }

  private static void differ(List<String> problems, String what, Object there, Object wanted) {
    if (!there.equals(wanted)) {
      problems.add("its files have " + what + " " + there + ", the table now has " + wanted);
    }
  }

  /** Refuses new files by which rows would be lost or duplicated. */
  private static void checkNewFiles(ColocatedTable table, Change change, List<DataFile> kept, Buckets buckets) {
    Set<String> paths = new HashSet<>();
    kept.forEach(file -> paths.add(file.path()));
    Set<String> partitionColumns = Set.copyOf(table.layout().storedPartitions());
    for (DataFile file : change.files()) {
      if (!paths.add(file.path())) {
        throw new WriteException.LoadConflict("table " + table.fullName() + ": file " + file.path() + " is committed already; "
            + "its rows would be duplicated. Nothing was changed");
      }
      if (!file.partition().keySet().equals(partitionColumns)) {
        throw new IllegalArgumentException("file " + file.path() + " is in partition " + file.partition() + "; the table is "
            + "partitioned by " + table.layout().storedPartitions());
      }
      try {
        StoredManifest.checkBucket(file, buckets);
      } catch (IOException error) {
        throw new IllegalArgumentException(error.getMessage(), error);
      }
    }
  }

  private static NextManifest encoded(
      ColocatedTable table, ObjectNode fields, Optional<StoredManifest> parent, List<DataFile> kept, List<DataFile> added,
      ChangeCounts changed, Buckets buckets) {
    int files = kept.size() + added.size();
    if (files > StoredManifest.MAX_FILES) {
      throw tooManyFiles(table, files, "; allowed: " + StoredManifest.MAX_FILES);
    }
    long snapshotId = fields.path("snapshotId").asLong();
    byte[] header = bytes(fields);
    ByteArrayOutputStream text = new ByteArrayOutputStream();
    text.write(header, 0, header.length - 1);
    write(text, ",\"files\":[");
    int start = text.size();
    parent.ifPresent(stored -> copyFiles(stored, kept, text));
    for (DataFile file : added) {
      write(text, text.size() == start ? "" : ",");
      text.writeBytes(bytes(json(file, files <= MOST_FILES_WITH_KEYS)));
    }
    write(text, "]}");
    if (text.size() > StoredManifest.MAX_BYTES) {
      throw tooManyFiles(table, files, ", whose manifest has " + text.size() + " bytes; allowed: " + StoredManifest.MAX_BYTES);
    }
    ObjectNode snapshot = snapshot(snapshotId, kept, added);
    changed.write(snapshot);
    if (!buckets.areEqual()) {
      snapshot.put(Snapshot.BUCKETS, buckets.ofTable());
    }
    return files < ManifestEncoder.FRAMED_FROM_FILES
        ? inFormat1(snapshotId, text.toByteArray(), snapshot, List.of())
        : framed(snapshotId, text.toByteArray(), snapshot);
  }

  private static WriteException tooManyFiles(ColocatedTable table, int files, String limit) {
    return new WriteException("table " + table.fullName() + " would have " + files + " files" + limit
        + ". Nothing was changed; compact the table, or load it with fewer partitions or buckets");
  }

  private static NextManifest inFormat1(long snapshotId, byte[] text, ObjectNode snapshot, List<DataFile> removed) {
    byte[] stored = Zstd.compress(text, LEVEL);
    String sha256 = StoredManifest.sha256(stored);
    return new NextManifest(snapshotId, stored, sha256, named(snapshot, sha256), removed, Optional.empty());
  }

  private static NextManifest framed(long snapshotId, byte[] text, ObjectNode snapshot) {
    try {
      ManifestEncoder.Stored stored = ManifestEncoder.encode((ObjectNode) JSON.readTree(text), Manifest.FRAMED_FORMAT);
      return new NextManifest(
          snapshotId, stored.content(), stored.sha256(), named(snapshot, stored.sha256()), List.of(), Optional.of(text));
    } catch (IOException error) {
      throw new IllegalStateException("a tree is always JSON", error);
    }
  }

  private static ObjectNode named(ObjectNode snapshot, String sha256) {
    return snapshot.deepCopy().put("manifest", "sha256:" + sha256);
  }

  /** The same manifest in format 1, which agents of every release read; empty when it already is in format 1. */
  Optional<NextManifest> inFormat1() {
    return framedText.map(text -> inFormat1(snapshotId, text, snapshot, removed));
  }

  private NextManifest removing(List<DataFile> files) {
    return new NextManifest(snapshotId, stored, sha256, snapshot, files, framedText);
  }

  /** What the change does. An overwrite removes all files without reading them; their snapshot records how many they are. */
  private static ChangeCounts counts(ColocatedTable table, Change change, List<DataFile> removed) {
    OptionalLong files = OptionalLong.of(removed.size());
    OptionalLong rows = OptionalLong.of(removed.stream().mapToLong(DataFile::rows).sum());
    if (!change.keepsFiles()) {
      boolean isKnown = table.statusError().isEmpty() && table.snapshot().map(Snapshot::hasCounts).orElse(true);
      files = isKnown ? OptionalLong.of(table.snapshot().map(Snapshot::files).orElse(0L)) : OptionalLong.empty();
      rows = isKnown ? OptionalLong.of(table.snapshot().map(Snapshot::rows).orElse(0L)) : OptionalLong.empty();
    }
    return new ChangeCounts(change.rowCounts(rows), OptionalLong.of(change.files().size()), files);
  }

  private static List<DataFile> removed(List<DataFile> committed, List<DataFile> kept) {
    Set<String> staying = new HashSet<>();
    kept.forEach(file -> staying.add(file.path()));
    return committed.stream().filter(file -> !staying.contains(file.path())).toList();
  }

  /** Copies the JSON of committed files that stay; {@code kept} are some of the parent's files, in its order. */
  private static void copyFiles(StoredManifest parent, List<DataFile> kept, ByteArrayOutputStream text) {
    int next = 0;
    for (int index = 0; index < parent.files().size() && next < kept.size(); index++) {
      if (parent.files().get(index) == kept.get(next)) {
        write(text, next == 0 ? "" : ",");
        parent.copyFile(index, text);
        next++;
      }
    }
    if (next != kept.size()) {
      throw new IllegalStateException("a change keeps files that are not committed, or in another order");
    }
  }

  private static Map<String, Integer> padded(
      ColocatedTable table, Optional<StoredManifest> parent, Change change, List<DataFile> kept) {
    Map<String, Integer> declared = TypeNames.charLengths(table.layout().columns());
    Map<String, Integer> before = parent.map(stored -> stored.padded(declared)).orElse(declared);
    Map<String, Integer> padded = new TreeMap<>(change.padded(declared, before, kept));
    padded.entrySet().retainAll(declared.entrySet());
    return padded;
  }

  private static ObjectNode header(ColocatedTable table, Buckets buckets, Map<String, Integer> padded) {
    ObjectNode header = JSON.createObjectNode()
        .put("formatVersion", StoredManifest.FORMAT_VERSION)
        .put("namespace", table.namespace())
        .put("table", table.name())
        .put("uid", table.uid())
        .put("snapshotId", table.lastId() + 1)
        .put("commitId", UUID.randomUUID().toString())
        .put("parent", table.snapshot().map(Snapshot::manifestSha256).orElse(null));
    ArrayNode columns = header.putArray("columns");
    for (Manifest.Column column : table.layout().columns()) {
      columns.addObject().put("name", column.name()).put("type", column.type()).put("nullable", column.nullable())
          .put("storedAs", column.storedAs());
    }
    table.layout().bucketedBy().forEach(header.putArray("bucketedBy")::add);
    table.layout().partitionedBy().forEach(header.putArray("partitionedBy")::add);
    table.layout().sortedBy().forEach(header.putArray("sortedBy")::add);
    if (!padded.isEmpty()) {
      padded.forEach(header.putObject("padded")::put);
    }
    header.put("buckets", buckets.ofGroup());
    return buckets.areEqual() ? header : header.put(ManifestHeader.TABLE_BUCKETS, buckets.ofTable());
  }

  private static ObjectNode json(DataFile file, boolean withKeys) {
    ObjectNode node = JSON.createObjectNode().put("path", file.path()).put("bucket", file.bucket());
    ObjectNode partition = node.putObject("partition");
    file.partition().forEach(partition::put);
    node.put("rows", file.rows()).put("bytes", file.bytes()).put("sha256", file.sha256());
    if (withKeys && file.keys().columns() > 0) {
      file.keys().values().forEach(node.putArray("keyRange")::addPOJO);
    }
    return node;
  }

  private static ObjectNode snapshot(long snapshotId, List<DataFile> kept, List<DataFile> added) {
    Set<Map<String, String>> partitions = new HashSet<>();
    long rows = 0;
    long bytes = 0;
    for (List<DataFile> files : List.of(kept, added)) {
      for (DataFile file : files) {
        partitions.add(file.partition());
        rows += file.rows();
        bytes += file.bytes();
      }
    }
    return JSON.createObjectNode().put("id", snapshotId).put("manifest", "")
        .put("partitions", partitions.size()).put("files", kept.size() + added.size()).put("rows", rows)
        .put("bytes", bytes);
  }

  private static byte[] bytes(ObjectNode node) {
    try {
      return JSON.writeValueAsBytes(node);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException("a tree is always JSON", error);
    }
  }

  private static void write(ByteArrayOutputStream target, String text) {
    target.writeBytes(text.getBytes(StandardCharsets.UTF_8));
  }
}
