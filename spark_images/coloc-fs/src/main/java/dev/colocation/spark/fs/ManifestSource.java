package dev.colocation.spark.fs;

import dev.colocation.spark.fs.AgentAddresses.AgentAddress;
import dev.colocation.spark.fs.ReplicaReader.Absence;
import dev.colocation.spark.fs.ReplicaReader.Rounds;
import dev.colocation.spark.fs.Transfer.RangeTarget;
import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The places of one manifest: the driver's folder, this node's disk, agents. When a place lacks it, or has wrong content, the
 * next one is read.
 */
final class ManifestSource {
  /** Decodes the bytes that were read. */
  interface Decoder<T> {
    /**
     * @throws IOException when the bytes are wrong; then another place is read
     */
    T decode(byte[] stored) throws IOException;
  }

  /** Reads from one place. */
  private interface Read {
    byte[] from(Place place) throws IOException;
  }

  private interface Place {
    byte[] whole() throws IOException;

    /** Fewer bytes than asked for when the manifest ends before. */
    byte[] range(long position, int length) throws IOException;
  }

  private final ColocPath path;
  private final Settings settings;
  private final String name;

  ManifestSource(ColocPath path, Settings settings) {
    this.path = path;
    this.settings = settings;
    name = path.manifest() + ".json.zst";
  }

  /** Reads a range, which {@code decoder} verifies. */
  <T> T read(long position, int length, Decoder<T> decoder) throws IOException {
    return first(place -> place.range(position, length), decoder);
  }

  /** Reads the header of a manifest of format 2, with the frame before it, or all of a manifest of format 1. */
  <T> T begin(Decoder<T> decoder) throws IOException {
    return first(this::begin, decoder);
  }

  private byte[] begin(Place place) throws IOException {
    byte[] begin = place.range(0, ManifestFrames.PREFIX_BYTES);
    return ManifestFrames.begins(begin)
        ? place.range(0, ManifestFrames.Prefix.of(begin, path.manifest()).headerEnd())
        : place.whole();
  }

  /** Refuses content without the digest in the manifest's name. */
  void checkName(byte[] stored) throws IOException {
    String actual = HexFormat.of().formatHex(ManifestFrames.digest(stored));
    if (!actual.equals(path.manifest())) {
      throw new IOException("manifest " + path.manifest() + " has the content of " + actual);
    }
  }

  /** Reads the whole manifest, and verifies the digest in its name. */
  <T> T whole(Decoder<T> decoder) throws IOException {
    return first(Place::whole, stored -> {
      checkName(stored);
      return decoder.decode(stored);
    });
  }

  /** Returns the result of the first place with right content. */
  private <T> T first(Read read, Decoder<T> decoder) throws IOException {
    Map<String, String> failures = new LinkedHashMap<>();
    List<Path> local = local();
    for (Path file : local) {
      if (Files.isReadable(file)) {
        try {
          return decoder.decode(read.from(new OnDisk(file)));
        } catch (InterruptedIOException error) {
          throw error;
        } catch (IOException error) {
          failures.put(file.toString(), String.valueOf(error.getMessage()));
        }
      }
    }
    List<AgentAddress> agents =
        AgentAddresses.of(settings.groupOf(path.namespace(), path.directory()), settings);
    Rounds rounds = new Rounds(settings.readDeadline());
    boolean worthRetrying;
    Absence absence;
    do {
      worthRetrying = false;
      absence = new Absence();
      for (AgentAddress agent : agents) {
        byte[] stored;
        try {
          stored = read.from(new AtAgent(agent));
        } catch (InterruptedIOException error) {
          throw error;
        } catch (IOException error) {
          failures.put(agent.node(), String.valueOf(error.getMessage()));
          absence.add(error);
          worthRetrying |= AgentAddress.mayPass(error);
          continue;
        }
        try {
          return decoder.decode(stored);
        } catch (IOException error) {
          failures.put(agent.node(), String.valueOf(error.getMessage()));
          absence.add(error);
        }
      }
    } while (worthRetrying && rounds.waitForAnother());
    throw new IOException("manifest " + path.manifest() + " of table " + path.table() + " is neither in " + local
        + " nor at an agent, as it should be. " + rounds.tried() + ": " + failures
        + ". " + (absence.isCertain() ? Absence.CAUSE : "See which agents are ready: colocation nodes"));
  }

  private List<Path> local() {
    List<Path> local = new ArrayList<>();
    settings.manifestDirectory().ifPresent(directory -> local.add(directory.resolve(name)));
    local.add(settings.dataRoot().resolve(path.namespace()).resolve(path.directory()).resolve("manifests").resolve(name));
    return local;
  }

  private record OnDisk(Path file) implements Place {
    @Override
    public byte[] whole() throws IOException {
      return Files.readAllBytes(file);
    }

    @Override
    public byte[] range(long position, int length) throws IOException {
      try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
        ByteBuffer buffer = ByteBuffer.allocate((int) Math.max(0, Math.min(length, channel.size() - position)));
        while (buffer.hasRemaining()) {
          if (channel.read(buffer, position + buffer.position()) < 0) {
            throw new EOFException(file + " became shorter while it was read");
          }
        }
        return buffer.array();
      }
    }
  }

  private final class AtAgent implements Place {
    private final AgentAddress agent;
    private final String target = AgentHttp.fileTarget(path, "manifests/" + name);

    AtAgent(AgentAddress agent) {
      this.agent = agent;
    }

    @Override
    public byte[] whole() throws IOException {
      return agent.call(
          url -> AgentHttp.shared(settings).readWhole(agent.node(), url, target, settings.requestTimeout()));
    }

    @Override
    public byte[] range(long position, int length) throws IOException {
      byte[] buffer = new byte[length];
      int done = 0;
      while (done < length) {
        int from = done;
        RangeTarget range = new RangeTarget(buffer, from, Math.min(length - from, AgentHttp.MAX_REQUEST_BYTES));
        done += agent.call(url -> AgentHttp.shared(settings)
            .readRange(agent.node(), url, target, position + from, range, settings.requestTimeout()));
      }
      return buffer;
    }
  }
}
