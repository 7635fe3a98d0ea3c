package dev.colocation.spark.fs;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.List;

/** One node's agent, wherever it listens by now. Not safe to share between threads. */
public final class AgentAddress {
  /** A request to the agent at a URL. */
  interface Call<T> {
    T at(String url) throws IOException;
  }

  private final AgentAddresses known;
  private final String node;
  private final String told;
  private final boolean isReady;
  private final boolean failedLately;
  private int failures;

  /**
   * @param told the agent's URL when the query was planned
   * @param isReady whether the operator said so when it wrote last: no operator tells of an agent that came back
   */
  public AgentAddress(AgentAddresses known, String node, String told, boolean isReady) {
    this.known = known;
    this.node = node;
    this.told = told;
    this.isReady = isReady;
    failedLately = RecentFailures.OF_THIS_JVM.failedLately(url());
  }

  public String node() {
    return node;
  }

  /** Where the next request goes: an address that did not fail lately, else one after the other. */
  String url() {
    List<String> urls = known.of(node, told);
    return urls.stream()
        .filter(url -> !RecentFailures.OF_THIS_JVM.failedLately(url))
        .findFirst()
        .orElse(urls.get(failures % urls.size()));
  }

  public boolean isReady() {
    return isReady;
  }

  /** Whether it had failed lately when this was made: agents are sorted by it, while other tasks go on learning. */
  public boolean failedLately() {
    return failedLately;
  }

  /** Sends a request, and remembers for this JVM whether the agent answered there. */
  <T> T call(Call<T> request) throws IOException {
    String url = url();
    try {
      T answer = request.at(url);
      RecentFailures.OF_THIS_JVM.answered(url);
      return answer;
    } catch (InterruptedIOException error) {
      throw error;
    } catch (IOException error) {
      if (mayPass(error)) {
        RecentFailures.OF_THIS_JVM.failed(url);
        failures++;
      }
      throw error;
    }
  }

  /** Whether another attempt at an agent may succeed: it did not answer, or refused for now. */
  static boolean mayPass(IOException error) {
    return !(error instanceof AgentRefused refused) || refused.isTransient();
  }
}
