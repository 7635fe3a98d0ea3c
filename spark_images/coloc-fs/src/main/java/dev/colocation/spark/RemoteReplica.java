package dev.colocation.spark;

import java.io.IOException;
import java.time.Duration;

/** A copy on another node, read through its agent. */
final class RemoteReplica implements Replica {
  private static final int BLOCK_BYTES = 1 << 20;

  private final AgentHttp agents;
  private final String node;
  private final String url;
  private final String target;
  private final Duration timeout;

  RemoteReplica(AgentHttp agents, String node, String url, String target, Duration timeout) {
    this.agents = agents;
    this.node = node;
    this.url = url;
    this.target = target;
    this.timeout = timeout;
  }

  @Override
  public String place() {
    return node + " (" + url + ")";
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
    int wanted = Math.min(length, AgentHttp.MAX_REQUEST_BYTES);
    return agents.readRange(url, target, position, new RangeTarget(buffer, offset, wanted), timeout);
  }

  @Override
  public void close() {
    // Connections belong to the shared client.
  }
}
