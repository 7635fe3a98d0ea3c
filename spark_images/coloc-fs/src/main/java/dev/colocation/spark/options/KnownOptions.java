package dev.colocation.spark.options;

import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * Judges the options of a statement by {@code options.json}. Spark takes any option and drops those that are not read; an option
 * that would have chosen rows must not be dropped, so what is not in the table is refused, too.
 */
public final class KnownOptions {
  /** The prefix of names that Spark adds and removes itself. */
  private static final String OF_SPARK_ITSELF = "__";

  private static final int MOST_WRONG_LETTERS = 2;
  private static final int FEWEST_LETTERS = 5;

  private static final List<KnownOption> ALL = read();

  private KnownOptions() {}

  private static List<KnownOption> read() {
    try (InputStream json = KnownOptions.class.getResourceAsStream("options.json")) {
      JsonMapper mapper = JsonMapper.builder().enable(MapperFeature.ACCEPT_CASE_INSENSITIVE_ENUMS).build();
      return List.of(mapper.readValue(json, KnownOption[].class));
    } catch (IOException error) {
      throw new UncheckedIOException("options.json of the jar cannot be read", error);
    }
  }

  /** The whole table. */
  static List<KnownOption> all() {
    return ALL;
  }

  /** Why a statement is refused for its options' names: the first option that is not taken, and what to use; empty if all are. */
  public static Optional<String> refusal(Way way, Collection<String> given) {
    return given.stream().sorted().flatMap(name -> refusal(way, name).stream()).findFirst();
  }

  private static Optional<String> refusal(Way way, String given) {
    if (given.startsWith(OF_SPARK_ITSELF)) {
      return Optional.empty();
    }
    Optional<KnownOption> known = find(given);
    if (known.isEmpty()) {
      return Optional.of("option '" + given + "' is unknown: " + alike(way, given)
          .map(name -> "it is spelt '" + name + "'")
          .orElseGet(() -> way.label() + " takes " + String.join(", ", doneIn(way)) + "; leave it out"));
    }
    KnownOption option = known.get();
    if (option.done().contains(way) || option.passed().contains(way)) {
      return Optional.empty();
    }
    List<String> advice = new ArrayList<>();
    if (!option.done().isEmpty()) {
      advice.add("it is of " + option.done().stream().map(Way::label).collect(Collectors.joining(" and ")));
    }
    advice.add(option.instead().isEmpty() && option.done().isEmpty() ? "leave it out" : option.instead());
    String instead = advice.stream().filter(words -> !words.isEmpty()).collect(Collectors.joining("; "));
    return Optional.of("option '" + option.spelling(given) + "' is not taken by " + way.label() + ": " + instead);
  }

  /** Log lines for options without effect, each with the reason. */
  public static List<String> withoutEffect(Way way, Collection<String> given) {
    return given.stream().sorted()
        .flatMap(name -> find(name).filter(option -> option.passed().contains(way) && !option.done().contains(way))
            .map(option -> "option '" + option.spelling(name) + "' has no effect: " + option.because()).stream())
        .toList();
  }

  private static Optional<KnownOption> find(String given) {
    return ALL.stream().filter(option -> option.hasName(given)).findFirst()
        .or(() -> ALL.stream().filter(option -> option.hasPrefixOf(given)).findFirst());
  }

  private static List<String> doneIn(Way way) {
    return ALL.stream().filter(option -> option.done().contains(way)).flatMap(option -> option.names().stream()).toList();
  }

  /** The option that is most likely misspelt. */
  private static Optional<String> alike(Way way, String given) {
    List<String> done = doneIn(way);
    return done.stream().filter(name -> letters(name).equals(letters(given))).findFirst()
        .or(() -> done.stream().filter(name -> letters(given).length() >= FEWEST_LETTERS
            && distance(letters(name), letters(given)) <= MOST_WRONG_LETTERS).findFirst());
  }

  private static String letters(String name) {
    return name.toLowerCase(Locale.ROOT).replaceAll("[^a-z]", "");
  }

  /** The number of letters to insert, delete or change (Levenshtein). */
  private static int distance(String one, String other) {
    int[] row = new int[other.length() + 1];
    for (int column = 0; column < row.length; column++) {
      row[column] = column;
    }
    for (int line = 1; line <= one.length(); line++) {
      int diagonal = row[0];
      row[0] = line;
      for (int column = 1; column < row.length; column++) {
        int changed = diagonal + (one.charAt(line - 1) == other.charAt(column - 1) ? 0 : 1);
        diagonal = row[column];
        row[column] = Math.min(changed, Math.min(row[column], row[column - 1]) + 1);
      }
    }
    return row[other.length()];
  }

  /**
   * A line of {@code options.json}. In each way an option is applied, or passes without an effect on rows, or is refused.
   *
   * @param names in any case; {@code *} at the end stands for any rest
   * @param of the projects that document it
   * @param done the ways in which it is done
   * @param does its effect there
   * @param passed the ways in which it is accepted without effect
   * @param because why it needs no effect there
   * @param instead what to use in the other ways; empty = the option belongs to the ways in which it is done
   */
  record KnownOption(
      List<String> names, List<String> of, List<Way> done, String does, List<Way> passed, String because, String instead) {
    private static final String ANY = "*";

    KnownOption {
      of = of == null ? List.of() : List.copyOf(of);
      done = done == null ? List.of() : List.copyOf(done);
      passed = passed == null ? List.of() : List.copyOf(passed);
      does = does == null ? "" : does;
      because = because == null ? "" : because;
      instead = instead == null ? "" : instead;
    }

    boolean hasName(String given) {
      return names.stream().anyMatch(given::equalsIgnoreCase);
    }

    /** The name as documented, since Spark passes some options in lower case. */
    String spelling(String given) {
      return names.stream().filter(given::equalsIgnoreCase).findFirst().orElse(given);
    }

    boolean hasPrefixOf(String given) {
      String lower = given.toLowerCase(Locale.ROOT);
      return names.stream().filter(name -> name.endsWith(ANY))
          .anyMatch(name -> lower.startsWith(name.substring(0, name.length() - 1).toLowerCase(Locale.ROOT)));
    }
  }

  /** The way in which a statement with options uses a table. */
  public enum Way {
    READ("a read"),
    WRITE("a write"),
    STREAM_READ("a stream's read"),
    STREAM_WRITE("a stream's write"),
    CHANGES("a read of CHANGES");

    private final String label;

    Way(String label) {
      this.label = label;
    }

    /** With its article, for messages. */
    public String label() {
      return label;
    }
  }
}
