package dev.colocation.spark.options;

import java.util.List;
import java.util.Locale;

/**
 * A line of {@code options.json}. In each way an option is done, or passes without an effect on rows, or is refused.
 *
 * @param names in any case; {@code *} at the end stands for any rest
 * @param of the projects that document it
 * @param done the ways in which it is done
 * @param does what it does there
 * @param passed the ways in which it may be given, and does nothing
 * @param because why it needs to do nothing there
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

  /** The name as it is documented: Spark hands some options on in small letters. */
  String spelling(String given) {
    return names.stream().filter(given::equalsIgnoreCase).findFirst().orElse(given);
  }

  boolean hasPrefixOf(String given) {
    String lower = given.toLowerCase(Locale.ROOT);
    return names.stream().filter(name -> name.endsWith(ANY))
        .anyMatch(name -> lower.startsWith(name.substring(0, name.length() - 1).toLowerCase(Locale.ROOT)));
  }
}
