package dev.colocation.spark.fs;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse.BodySubscribers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Requests of writers to one node's agent, at its current address. Every request can be repeated, and is repeated until its retry
 * time has passed, since agents restart when they are upgraded. Safe to share between threads.
 */
public final class AgentClient {
  private static final Duration STILL = Duration.ofSeconds(60);
  /** How long an agent may check its files before it answers, while it still answers other requests. */
  private static final Duration LOOKING = Duration.ofHours(1);
  private static final Duration FIRST_DELAY = Duration.ofMillis(200);
  private static final Duration MAX_DELAY = Duration.ofSeconds(5);
  private static final int MAX_SMALL_ANSWER_BYTES = 256 << 20;
  private static final int OK = 200;
  private static final int CREATED = 201;
  private static final Pattern SHA256_MEMBER = Pattern.compile("(?:^|,)\\s*sha-256=:([A-Za-z0-9+/=]+):\\s*(?:$|,)");
  private static final Body NOTHING = transfer -> BodyPublishers.noBody();
  private static final ObjectMapper JSON = new ObjectMapper();

  private final AgentHttp http;
  private final AgentAddresses addresses;
  private final String node;
  private final String planned;
  private final Duration still;

  /** A table's folder at an agent. */
  public record Folder(String namespace, String directory) {
    @Override
    public String toString() {
      return namespace + "/" + directory;
    }

    String file(String path) {
      return "/v1/files/" + AgentHttp.encode(namespace + "/" + directory + "/" + path);
    }

    String action(String name) {
      return "/v1/tables/" + AgentHttp.encode(namespace + "/" + directory) + "/" + name;
    }
  }

  /**
   * One request.
   *
   * @param body makes the body, for each attempt
   * @param answer makes what reads the body of a good answer, for each attempt
   * @param question a cheap one, whose answer shows that the agent is there while nothing moves; empty = something has to move
   */
  private record Request(
      String method, String target, Map<String, String> headers, Body body, BodyReader answer, String question) {
    Request(String method, String target, Map<String, String> headers, Body body, BodyReader answer) {
      this(method, target, headers, body, answer, "");
    }
  }

  private interface Body {
    BodyPublisher open(Transfer transfer) throws IOException;
  }

  private interface BodyReader {
    OutputStream open() throws IOException;
  }

  /**
   * @param node the agent's node, which its certificate has to name
   * @param planned its URL when the driver looked
   */
  public AgentClient(String node, String planned, Path tokenFile, Path authorityFile) {
    this(node, planned, tokenFile, authorityFile, STILL);
  }

  /** @param still how long a transfer may make no progress */
  AgentClient(String node, String planned, Path tokenFile, Path authorityFile, Duration still) {
    http = AgentHttp.shared(tokenFile, authorityFile);
    addresses = AgentAddresses.shared(authorityFile);
    this.node = node;
    this.planned = planned;
    this.still = still;
  }

  /**
   * Publishes a local file. Putting the same content again changes nothing.
   *
   * @param sha256 of the content, 64 hex digits
   * @param retry how long to try; zero = once, at each address that the agent may have
   * @throws AgentFailure when the agent refused, or did not answer
   */
  public void putFile(Folder folder, String path, Path content, String sha256, Duration retry) throws IOException {
    put(folder, path, transfer -> transfer.bodyOf(content), sha256, retry);
  }

  /** Publishes bytes instead of a file. */
  public void putBytes(Folder folder, String path, byte[] content, String sha256, Duration retry) throws IOException {
    put(folder, path, transfer -> BodyPublishers.ofByteArray(content), sha256, retry);
  }

  private void put(Folder folder, String path, Body body, String sha256, Duration retry) throws IOException {
    String digest = "sha-256=:" + Base64.getEncoder().encodeToString(HexFormat.of().parseHex(sha256)) + ":";
    Map<String, String> headers = Map.of("Content-Digest", digest, "Content-Type", "application/octet-stream");
    repeat(new Request("PUT", folder.file(path), headers, body, ByteArrayOutputStream::new), retry);
  }

  /** The digest of a file that the agent holds, 64 hex digits; empty when the agent does not return it. */
  public String sha256Of(Folder folder, String path, Duration retry) throws IOException {
    HttpResponse<OutputStream> answer =
        repeat(new Request("HEAD", folder.file(path), Map.of(), NOTHING, ByteArrayOutputStream::new), retry);
    Matcher digest = SHA256_MEMBER.matcher(answer.headers().firstValue("Content-Digest").orElse(""));
    try {
      return digest.find() ? HexFormat.of().formatHex(Base64.getDecoder().decode(digest.group(1))) : "";
    } catch (IllegalArgumentException error) {
      return "";
    }
  }

  /** The agent's report on a manifest: a TableReport of the agents' API. */
  public JsonNode verify(Folder folder, String manifest, Duration retry) throws IOException {
    byte[] question = JSON.writeValueAsBytes(Map.of("manifest", manifest, "deep", false));
    Body body = transfer -> BodyPublishers.ofByteArray(question);
    Map<String, String> headers = Map.of("Content-Type", "application/json");
    String meanwhile = folder.file("manifests/" + manifest + ".json.zst");
    HttpResponse<OutputStream> answer = repeat(
        new Request("POST", folder.action("verify"), headers, body, Small::new, meanwhile), retry);
    return JSON.readTree(((Small) answer.body()).toByteArray());
  }

  /** A whole file of at most 256 MiB, such as a manifest. */
  public byte[] read(Folder folder, String path, Duration retry) throws IOException {
    HttpResponse<OutputStream> answer =
        repeat(new Request("GET", folder.file(path), Map.of(), NOTHING, Small::new), retry);
    return ((Small) answer.body()).toByteArray();
  }

  /**
   * Copies a file to a local one.
   *
   * @throws AgentFailure also when the content does not have the digest
   */
  public void copy(Folder folder, String path, Path target, String sha256, Duration retry) throws IOException {
    Request request = new Request(
        "GET", folder.file(path), Map.of(), NOTHING, () -> Files.newOutputStream(target));
    repeat(request, retry);
    String actual = sha256(target);
    if (!actual.equals(sha256)) {
      throw AgentFailure.unusable("DigestMismatch: " + path + " arrived with the digest " + actual + ", not " + sha256);
    }
  }

  private static String sha256(Path file) throws IOException {
    try (var content = Files.newInputStream(file)) {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      byte[] block = new byte[1 << 16];
      for (int length = content.read(block); length >= 0; length = content.read(block)) {
        digest.update(block, 0, length);
      }
      return HexFormat.of().formatHex(digest.digest());
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException("every Java platform has SHA-256", error);
    }
  }

  /** An answer in memory, of limited size. */
  private static final class Small extends ByteArrayOutputStream {
    @Override
    public void write(byte[] bytes, int start, int length) {
      if (size() + length > MAX_SMALL_ANSWER_BYTES) {
        throw new UncheckedIOException(new IOException("the answer is longer than " + MAX_SMALL_ANSWER_BYTES + " bytes"));
      }
      super.write(bytes, start, length);
    }
  }

  private HttpResponse<OutputStream> repeat(Request request, Duration retry) throws IOException {
    long started = System.nanoTime();
    Duration delay = FIRST_DELAY;
    int turn = 0;
    while (true) {
      List<String> urls = addresses.of(node, planned);
      try {
        return attempt(request, urls.get(turn % urls.size()));
      } catch (AgentFailure failure) {
        turn++;
        if (failure.mayPass() && turn < urls.size()) {
          continue;
        }
        Duration passed = Duration.ofNanos(System.nanoTime() - started);
        Duration wait = larger(jittered(delay), smaller(failure.retryAfter(), MAX_DELAY));
        if (!failure.mayPass() || passed.plus(delay).compareTo(retry) > 0) {
          throw turn > 1 ? failure.after(turn, passed) : failure;
        }
        pause(wait);
        delay = smaller(delay.multipliedBy(2), MAX_DELAY);
      }
    }
  }

  private HttpResponse<OutputStream> attempt(Request request, String url) throws IOException {
    HttpResponse<OutputStream> answer;
    try (Transfer transfer = new Transfer()) {
      answer = exchange(request, url.replaceAll("/+$", ""), transfer);
    }
    if (!Set.of(OK, CREATED).contains(answer.statusCode())) {
      byte[] said = ((ByteArrayOutputStream) answer.body()).toByteArray();
      throw AgentFailure.refused(answer.statusCode(), said, retryAfter(answer));
    }
    return answer;
  }

  private HttpResponse<OutputStream> exchange(Request request, String url, Transfer transfer) throws IOException {
    BodyPublisher body = request.body().open(transfer);
    AgentHttp.Stillness stillness = request.question().isEmpty() ? this::isTooLong : new Looking(request, url);
    return http.exchange(
        node, url + request.target(), builder -> {
          request.headers().forEach(builder::header);
          builder.method(request.method(), body);
        }, collecting(request, transfer), transfer, stillness);
  }

  private boolean isTooLong(Duration stillFor) {
    return stillFor.compareTo(still) > 0;
  }

  /** No bytes move while an agent checks its files, so from time to time it is asked whether it is alive. */
  private final class Looking implements AgentHttp.Stillness {
    private final Request question;
    private final String url;
    private Duration next = still;

    Looking(Request request, String url) {
      question = new Request("HEAD", request.question(), Map.of(), NOTHING, ByteArrayOutputStream::new);
      this.url = url;
    }

    @Override
    public boolean isTooLong(Duration stillFor) throws IOException {
      if (stillFor.compareTo(next) > 0) {
        // Any answer will do; without one, the failure is the request's.
        try (Transfer transfer = new Transfer()) {
          exchange(question, url, transfer);
        }
        next = stillFor.plus(still);
      }
      return stillFor.compareTo(LOOKING) > 0;
    }
  }

  private static BodyHandler<OutputStream> collecting(Request request, Transfer transfer) {
    return head -> {
      boolean isGood = Set.of(OK, CREATED).contains(head.statusCode());
      OutputStream target = transfer.own(opened(isGood ? request.answer() : Small::new));
      return BodySubscribers.mapping(
          BodySubscribers.ofByteArrayConsumer(piece -> take(piece.orElse(null), target, transfer)), nothing -> target);
    };
  }

  private static OutputStream opened(BodyReader answer) {
    try {
      return answer.open();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static void take(byte[] piece, OutputStream target, Transfer transfer) {
    transfer.moved();
    try {
      if (piece == null) {
        target.close();
      } else {
        target.write(piece, 0, piece.length);
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static Duration retryAfter(HttpResponse<?> answer) {
    String seconds = answer.headers().firstValue("Retry-After").orElse("");
    return seconds.matches("\\d{1,4}") ? Duration.ofSeconds(Long.parseLong(seconds)) : Duration.ZERO;
  }

  private static Duration jittered(Duration delay) {
    return Duration.ofMillis(ThreadLocalRandom.current().nextLong(delay.toMillis() / 2, delay.toMillis() + 1));
  }

  private static Duration smaller(Duration one, Duration other) {
    return one.compareTo(other) < 0 ? one : other;
  }

  private static Duration larger(Duration one, Duration other) {
    return one.compareTo(other) > 0 ? one : other;
  }

  private static void pause(Duration time) throws InterruptedIOException {
    try {
      Thread.sleep(time.toMillis());
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw (InterruptedIOException) new InterruptedIOException("interrupted while waiting for an agent").initCause(error);
    }
  }
}
