package dev.colocation.spark.cluster;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * The part of a table's status that commits write. Anyone who can load the table can write anything there, so every field is
 * checked; whatever passes is kept, and the rest is described in the problems.
 *
 * @param snapshot the newest one; empty before the first load
 * @param history replaced snapshots that can still be read, the newest first
 * @param commits keys of past commits, the newest first
 * @param lostId the id of a newest snapshot that is otherwise invalid, as far as it can be trusted; else 0
 * @param snapshotProblems what is wrong with {@code status.snapshot} and {@code status.history}
 * @param commitProblems what is wrong with {@code status.commits}
 */
record CommittedState(
    Optional<Snapshot> snapshot, List<Snapshot> history, List<CommitKey.CommitRecord> commits, long lostId,
    List<String> snapshotProblems, List<String> commitProblems) {
  private static final int MAX_HISTORY = 100;

  static CommittedState parse(JsonNode status) {
    List<String> snapshotProblems = new ArrayList<>();
    List<String> commitProblems = new ArrayList<>();
    if (!Json.isAbsent(status) && !status.isObject()) {
      snapshotProblems.add("status is " + Json.shown(status) + "; allowed: an object");
    }
    JsonNode newest = status.path("snapshot");
    Optional<Snapshot> snapshot = Json.isAbsent(newest) ? Optional.empty()
        : valid(Stream.of(newest), (node, index) -> Snapshot.problem(node, "status.snapshot"), Snapshot::of, snapshotProblems)
            .stream().findFirst();
    List<Snapshot> history = list(status, "history", MAX_HISTORY, Snapshot::problem, Snapshot::of, snapshotProblems);
    List<CommitKey.CommitRecord> commits = list(
        status, "commits", CommitKey.CommitRecord.MAX_RECORDS, CommitKey.CommitRecord::problem, CommitKey.CommitRecord::of,
        commitProblems);
    long lostId = snapshotProblems.isEmpty() ? 0 : lostId(newest);
    return new CommittedState(
        snapshot, history, commits, lostId, List.copyOf(snapshotProblems), List.copyOf(commitProblems));
  }

  private static <T> List<T> list(
      JsonNode status, String field, int most, BiFunction<JsonNode, String, Optional<String>> problem,
      Function<JsonNode, T> parse, List<String> problems) {
    JsonNode given = status.path(field);
    String where = "status." + field;
    if (given.isMissingNode()) {
      return List.of();
    }
    if (!given.isArray()) {
      problems.add(where + " is " + Json.shown(given) + "; allowed: a list");
      return List.of();
    }
    if (given.size() > most) {
      problems.add(where + " has " + given.size() + " items; allowed: at most " + most);
    }
    List<JsonNode> nodes = new ArrayList<>();
    given.forEach(nodes::add);
    List<T> valid = valid(nodes.stream(), (node, index) -> problem.apply(node, where + "[" + index + "]"), parse, problems);
    return valid.subList(0, Math.min(valid.size(), most));
  }

  private static <T> List<T> valid(
      Stream<JsonNode> given, BiFunction<JsonNode, Integer, Optional<String>> problem, Function<JsonNode, T> parse,
      List<String> problems) {
    List<T> valid = new ArrayList<>();
    int index = 0;
    for (JsonNode node : given.toList()) {
      Optional<String> wrong = problem.apply(node, index++);
      wrong.ifPresentOrElse(problems::add, () -> valid.add(parse.apply(node)));
    }
    return valid;
  }

  private static long lostId(JsonNode snapshot) {
    JsonNode id = snapshot.path("id");
    return Json.isCount(id) && id.asLong() < Json.MAX_EXACT / 2 ? id.asLong() : 0;
  }

  /** For a write that replaces all rows: only the newest snapshot counts, and only if it is valid. */
  CommittedState replaced() {
    return new CommittedState(snapshot, List.of(), commits, lostId, List.of(), List.of());
  }

  /** The state before later snapshots were committed. */
  CommittedState at(Optional<Snapshot> older) {
    return new CommittedState(older, history, commits, lostId, snapshotProblems, commitProblems);
  }

  /** The newest snapshot and those that can still be read, the newest first. */
  List<Snapshot> snapshots() {
    return Stream.concat(snapshot.stream(), history.stream()).toList();
  }

  /** The largest id of any snapshot so far; 0 = none. */
  long lastId() {
    return Math.max(lostId, snapshots().stream().mapToLong(Snapshot::id).max().orElse(0));
  }

  /**
   * The snapshots that stay readable when the table gets a new one, the newest first; the operator applies the same rule,
   * {@code model/table.py}. A snapshot was replaced when the next newer one was committed.
   *
   * @param committedAt of the new one
   * @param retention for how long replaced snapshots are kept
   * @param most how many of them
   */
  List<Snapshot> historyAfter(Instant committedAt, Instant now, Duration retention, int most) {
    List<Snapshot> kept = new ArrayList<>();
    Instant replacedAt = committedAt;
    for (Snapshot replaced : snapshots()) {
      boolean isOld = Duration.between(replacedAt, now).compareTo(retention) >= 0;
      if (kept.size() >= most || isOld) {
        break; // older ones were replaced earlier
      }
      kept.add(replaced);
      replacedAt = replaced.committedAt();
    }
    return List.copyOf(kept);
  }
}
