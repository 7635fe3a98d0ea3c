package dev.colocation.spark.write;

import dev.colocation.spark.cluster.DataFile;
import java.util.List;

/** All files stay, under a definition with fewer columns. Files that have one of these do not fit it: then it is refused. */
public record DropColumns() implements Change {
  @Override
  public String label() {
    return "drop-columns";
  }

  @Override
  public boolean keepsFiles() {
    return true;
  }

  @Override
  public List<DataFile> kept(List<DataFile> committed) {
    return committed;
  }

  @Override
  public void checkOvertaking(List<DataFile> beganOn, List<DataFile> committed) {}
}
