package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.Moment;
import dev.colocation.spark.cluster.TableObject;
import dev.colocation.spark.write.ReadSnapshot;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/** The newest snapshots of tables that a query was analyzed with before, all of them as of one moment. */
final class NewestTables {
  private final String catalog;
  private final Moment moment;
  private final TableLoader loader;
  private final FileIndexes indexes;
  private final Map<String, LoadedTable> known = new HashMap<>();

  NewestTables(String catalog, Moment moment, TableLoader loader, FileIndexes indexes) {
    this.catalog = catalog;
    this.moment = moment;
    this.loader = loader;
    this.indexes = indexes;
  }

  /** The relation with the table's newest files, buckets and nodes. */
  LogicalRelation read(LogicalRelation analyzed, HadoopFsRelation files, ReadSnapshot read) {
    return FilesRelation.again(analyzed, files, known.computeIfAbsent(read.folder(), folder -> load(read)), indexes);
  }

  private LoadedTable load(ReadSnapshot read) {
    TableObject object = moment.table(read.namespace(), read.table())
        .orElseThrow(() -> gone(read, "dropped", "bring the table back (`colocation recover`), or end the stream"));
    if (!(object.namespace() + "/" + object.directory()).equals(read.folder())) {
      throw gone(read, "dropped and recreated", "start the stream again");
    }
    return loader.newest(moment, object);
  }

  private RuntimeException gone(ReadSnapshot read, String how, String cure) {
    return new ColocationException("table " + catalog + "." + read.namespace() + "." + read.table() + " was " + how
        + " since the stream began; " + cure).unchecked();
  }
}
