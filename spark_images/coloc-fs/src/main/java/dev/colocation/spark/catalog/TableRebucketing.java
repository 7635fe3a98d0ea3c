package dev.colocation.spark.catalog;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.DataFile;
import dev.colocation.spark.cluster.Snapshot;
import dev.colocation.spark.cluster.WriteException.LoadConflict;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.ManifestHeader;
import dev.colocation.spark.write.Change.Rebucket;
import dev.colocation.spark.write.Rebucketing;
import dev.colocation.spark.write.Transaction;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.classic.SparkSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes all rows of a table again for another number of buckets, in one commit that changes no row, and sets {@code spec.buckets}.
 *
 * <p>Appends may go on meanwhile: then it begins again on the newest snapshot, a few times. It can be interrupted and repeated
 * anywhere: files that were not committed are garbage, and after the commit a repetition only sets the spec.
 */
final class TableRebucketing {
  private static final Logger LOG = LoggerFactory.getLogger(TableRebucketing.class);
  private static final int MOST_ATTEMPTS = 3;

  /** Loads the table as it is then. */
  interface Newest {
    ColocationTable load() throws Exception;
  }

  /**
   * What was committed; no files when the table has the number already.
   *
   * @param bucketsBefore the number before
   * @param snapshotId the table's newest snapshot
   */
  record Result(
      int bucketsBefore, int buckets, long filesBefore, long filesAfter, long rows, long bytes, long snapshotId,
      int replicasMissing) {}

  private TableRebucketing() {}

  static Result run(Newest newest, int wanted, TableWriter writer) throws Exception {
    for (int attempt = 1; true; attempt++) {
      ColocationTable table = newest.load();
      try {
        requireRights(table, wanted, writer);
        Result done = committed(table, wanted);
        declare(table, wanted, writer);
        return done;
      } catch (LoadConflict conflict) {
        if (attempt == MOST_ATTEMPTS) {
          throw conflict;
        }
        LOG.info("{}: rebucketing begins again: {}", table.name(), conflict.getMessage());
      }
    }
  }

  /** Refuses an account that may commit rows but not change the spec, before any row is written. */
  private static void requireRights(ColocationTable table, int wanted, TableWriter writer) {
    ColocatedTable object = table.loaded().object();
    if (declared(table) != wanted) {
      ObjectNode nothingNew = JsonNodeFactory.instance.objectNode();
      nothingNew.set("bucketedBy", object.spec().path("bucketedBy"));
      writer.validate(object.namespace(), object.name(), nothingNew, nothingNew);
    }
  }

  private static int declared(ColocationTable table) {
    return table.loaded().object().spec().path("buckets").asInt(table.loaded().shape().buckets().ofGroup());
  }

  private static Result committed(ColocationTable table, int wanted) throws Exception {
    LoadedTable loaded = table.loaded();
    loaded.requireReadable();
    Buckets before = loaded.shape().buckets();
    requireMultiple(table.name(), before.ofGroup(), wanted);
    Optional<Snapshot> snapshot = loaded.snapshot();
    if (snapshot.isPresent() && before.ofTable() == wanted) {
      return new Result(wanted, wanted, 0, 0, 0, 0, snapshot.get().id(), 0);
    }
    Transaction transaction = table.target().begin();
    List<DataFile> files = snapshot.isPresent() ? transaction.files(snapshot.get().manifestSha256()) : List.of();
    if (files.isEmpty()) {
      Rebucket nothing = new Rebucket(Set.of(), List.of(), new Buckets(before.ofGroup(), wanted));
      long id = transaction.commit(table.name(), nothing, List.of(), Optional.empty()).snapshotId();
      return new Result(before.ofTable(), wanted, 0, 0, 0, 0, id, 0);
    }
    SparkSession session = TableCompaction.newSession();
    var done = ReplacingWrite.run(
        session, FilesRelation.some(loaded, files.stream().map(loaded::path).toList()), loaded, new Rebucketing(files, wanted));
    return new Result(before.ofTable(), wanted, files.size(), done.files(), done.rows(), done.bytes(), done.snapshotId(),
        done.replicasMissing());
  }

  /** The number, unless a table of a group of so many buckets cannot have it. As Python's {@code allowed_buckets}. */
  static int requireMultiple(String table, int ofGroup, int wanted) {
    if (wanted < ofGroup || wanted % ofGroup != 0 || wanted > ManifestHeader.MAX_BUCKETS) {
      throw new ColocationException("buckets is " + wanted + "; table " + table + " is in a group of " + ofGroup
          + " buckets; allowed: " + ofGroup + " or a multiple of it, up to " + ManifestHeader.MAX_BUCKETS).unchecked();
    }
    return wanted;
  }

  /** The spec has the number after the commit, so that it is true of the rows at any time. */
  private static void declare(ColocationTable table, int wanted, TableWriter writer) {
    if (declared(table) != wanted) {
      writer.change(table.loaded().object().namespace(), table.loaded().object().name(), object -> {
        ObjectNode patch = JsonNodeFactory.instance.objectNode();
        return patch.put("buckets", wanted);
      });
    }
  }
}
