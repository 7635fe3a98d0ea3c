package dev.colocation.spark;

import java.io.IOException;
import java.io.InterruptedIOException;
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
    RangeTarget range = new RangeTarget(buffer, offset, Math.min(length, AgentHttp.MAX_REQUEST_BYTES));
    try {
      int count = agents.readRange(url, target, position, range, timeout);
      RecentFailures.OF_THIS_JVM.answered(url);
      return count;
    } catch (InterruptedIOException error) {
      throw error;
    } catch (IOException error) {
      if (!(error instanceof AgentRefused refused) || refused.isTransient()) {
        RecentFailures.OF_THIS_JVM.failed(url);
      }
      throw error;
    }
  }

  @Override
  public void close() {
    // Connections belong to the shared client.
  }
}
