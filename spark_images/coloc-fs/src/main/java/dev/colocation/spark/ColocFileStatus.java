package dev.colocation.spark;

import java.util.List;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;

/**
 * A file whose hosts are looked up whenever Spark asks, that is for each query: executors come and go after the table was
 * listed.
 */
final class ColocFileStatus extends LocatedFileStatus {
  private static final long serialVersionUID = 1L;

  private final transient List<String> nodes;

  ColocFileStatus(FileStatus status, List<String> nodes) {
    super(status, null);
    this.nodes = nodes;
  }

  @Override
  public BlockLocation[] getBlockLocations() {
    String[] hosts = nodes == null ? new String[0] : ExecutorHosts.OF_THIS_DRIVER.of(nodes);
    return new BlockLocation[] {new BlockLocation(hosts, hosts, 0, getLen())};
  }
}
