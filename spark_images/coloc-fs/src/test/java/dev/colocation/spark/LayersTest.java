package dev.colocation.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.colocation.spark.catalog.ClusterCatalog;
import dev.colocation.spark.fs.Settings;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Packages depend on each other in one direction only, and no two classes of theirs share a name. */
final class LayersTest {
  /** Packages, each with those that it may use. The top, which holds what users configure, may use all. */
  private static final Map<String, Set<String>> LAYERS = Map.of(
      "options", Set.of(),
      "fs", Set.of(),
      "plan", Set.of("fs"),
      "explain", Set.of("fs", "plan"),
      "ui", Set.of("explain"),
      "cluster", Set.of("fs"),
      "write", Set.of("fs", "cluster", "options", "plan"),
      "catalog", Set.of("fs", "cluster", "write", "plan", "options", "explain"),
      "", Set.of("fs", "cluster", "write", "catalog", "plan", "options", "explain", "ui"));

  private static final Pattern PACKAGE = Pattern.compile("^package dev\\.colocation\\.spark(?:\\.(\\w+))?;", Pattern.MULTILINE);
  /** Also where code names a class in full; comments and texts may name any class. */
  private static final Pattern NAME = Pattern.compile("\\bdev\\.colocation\\.spark\\.(?:(\\w+)\\.)?[A-Z]\\w*");
  private static final Pattern NO_CODE =
      Pattern.compile("\"(?:\\\\.|[^\"\\\\\n])*\"|//[^\n]*|/\\*.*?\\*/", Pattern.DOTALL);

  private static Map<String, String> sources() throws IOException {
    Map<String, String> sources = new TreeMap<>();
    try (Stream<Path> files = Files.walk(folder())) {
      for (Path file : files.filter(path -> path.toString().endsWith(".java")).toList()) {
        sources.put(file.toString(), Files.readString(file));
      }
    }
    return sources;
  }

  /** Maven runs tests in the module's folder, tests on other Spark versions run in the repository's. */
  private static Path folder() {
    return Stream.of("src/main/java", "spark_images/coloc-fs/src/main/java").map(Path::of).filter(Files::isDirectory)
        .findFirst().orElseThrow();
  }

  private static List<String> violations(Map<String, String> sources) {
    List<String> found = new ArrayList<>();
    sources.forEach((file, text) -> {
      String own = packageOf(text);
      Matcher names = NAME.matcher(NO_CODE.matcher(text).replaceAll(""));
      while (names.find()) {
        String used = names.group(1) == null ? "" : names.group(1);
        if (!used.equals(own) && !LAYERS.get(own).contains(used)) {
          found.add(file + " uses " + names.group());
        }
      }
    });
    return found;
  }

  private static String packageOf(String text) {
    Matcher declaration = PACKAGE.matcher(text);
    return declaration.find() && declaration.group(1) != null ? declaration.group(1) : "";
  }

  @Test
  void packagesUseLowerPackagesOnly() throws IOException {
    assertEquals(List.of(), violations(sources()));
  }

  @Test
  void upwardUseIsFound() {
    String upwards = "package dev.colocation.spark.cluster;\nimport dev.colocation.spark.write.Commit;\n";
    String inFull = "package dev.colocation.spark.fs;\nclass A {\n  dev.colocation.spark.ColocFileSystem system;\n}\n";
    String named = "package dev.colocation.spark.fs;\n/** See {@link dev.colocation.spark.write.Commit}. */\n"
        + "class B {\n  String name = \"dev.colocation.spark.ColocFileSystem\";\n}\n";
    assertEquals(
        List.of("Above.java uses dev.colocation.spark.write.Commit", "InFull.java uses dev.colocation.spark.ColocFileSystem"),
        violations(new TreeMap<>(Map.of("Above.java", upwards, "InFull.java", inFull, "Named.java", named))));
  }

  @Test
  void classNamesAreUnique() throws IOException {
    Map<String, String> known = new HashMap<>();
    List<String> twice = new ArrayList<>();
    for (String file : sources().keySet()) {
      String name = Path.of(file).getFileName().toString();
      String other = known.put(name, file);
      if (other != null && !name.equals("package-info.java")) {
        twice.add(other + " and " + file);
      }
    }
    assertEquals(List.of(), twice);
  }

  /** Lower packages know the classes that users configure by their names only. */
  @Test
  void configuredClassNamesAreRight() {
    assertEquals(ColocationCatalog.class.getName(), ClusterCatalog.CONFIGURED_CLASS);
    assertEquals(ColocFileSystem.class.getName(), Settings.FILE_SYSTEM_CLASS);
  }
}
