package dev.colocation.spark.fs;

import java.io.IOException;
import java.time.Duration;

/** A copy on another node, read through its agent. */
public final class RemoteReplica implements Replica {
  private static final int BLOCK_BYTES = 1 << 20;

  private final AgentHttp agents;
  private final AgentAddress address;
  private final ColocPath file;
  private final String target;
  private final Duration timeout;

  public RemoteReplica(AgentHttp agents, AgentAddress address, ColocPath file, Duration timeout) {
    this.agents = agents;
    this.address = address;
    this.file = file;
    this.target = AgentHttp.fileTarget(file);
    this.timeout = timeout;
  }

  String node() {
    return address.node();
  }

  /** {@code <namespace>/<directory>/<path>}, percent-encoded. */
  String target() {
    return target;
  }

  /**
   * Lets the agent look at the file; a damaged one is set aside and replaced.
   *
   * @return whether it is damaged
   * @throws IOException when the agent did not say
   */
  boolean checkForDamage() throws IOException {
    return address.call(url -> agents.checkForDamage(address.node(), url, file, timeout));
  }

  @Override
  public String place() {
    return address.node() + " (" + address.url() + ")";
  }

  @Override
  public int blockBytes() {
    return BLOCK_BYTES;
  }

  @Override
  public boolean isLocal() {
    return false;
  }

  @Override
  public int read(long position, byte[] buffer, int offset, int length) throws IOException {
    RangeTarget range = new RangeTarget(buffer, offset, Math.min(length, AgentHttp.MAX_REQUEST_BYTES));
    return address.call(url -> agents.readRange(address.node(), url, target, position, range, timeout));
  }

  @Override
  public void close() {
    // Connections belong to the shared client.
  }
}
