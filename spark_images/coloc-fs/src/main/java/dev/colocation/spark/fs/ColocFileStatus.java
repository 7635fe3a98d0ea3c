package dev.colocation.spark.fs;

import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;

/**
 * A file whose hosts are looked up whenever Spark asks, that is for each query: executors come and go after the table was
 * listed.
 */
public final class ColocFileStatus extends LocatedFileStatus {
  private static final long serialVersionUID = 1L;

  private final transient Settings.Group group;
  private final transient int bucket;

  public ColocFileStatus(FileStatus status, Settings.Group group, int bucket) {
    super(status, null);
    this.group = group;
    this.bucket = bucket;
  }

  @Override
  public BlockLocation[] getBlockLocations() {
    String[] hosts = group == null
        ? new String[0]
        : ExecutorHosts.OF_THIS_DRIVER.of(group, bucket);
    return new BlockLocation[] {new BlockLocation(hosts, hosts, 0, getLen())};
  }
}
