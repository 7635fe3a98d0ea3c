package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import java.io.Serializable;
import java.util.List;

/** A file and the nodes that hold it, substitutes too. */
public record SentFile(DataFile file, List<String> nodes) implements Serializable {
  public SentFile {
    nodes = List.copyOf(nodes);
  }
}
