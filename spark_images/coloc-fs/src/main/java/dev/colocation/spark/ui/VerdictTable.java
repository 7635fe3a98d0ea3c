package dev.colocation.spark.ui;

import dev.colocation.spark.explain.RecentQueries.Query;
import dev.colocation.spark.explain.RecentQueries.Verdict;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import scala.xml.Utility;

/** Queries and their verdicts as HTML; every text is escaped. */
final class VerdictTable {
  private static final String EXPLANATION = "Queries on colocated tables that ended last, with a verdict on each join, group-by and window: "
      + "colocate: true needs no shuffle. The number leads to the plan in the tab SQL / DataFrame.";
  private static final String HEAD = Stream.of("Query", "Description", "Ended", "Seconds", "Verdicts")
      .map(name -> "<th>" + name + "</th>").collect(Collectors.joining("", "<thead><tr>", "</tr></thead>"));

  private VerdictTable() {}

  /** The newest query first; {@code linkToExecution}: to the plan of the query whose number follows it. */
  static String html(List<Query> queries, String linkToExecution) {
    String rows = queries.stream().map(query -> row(query, linkToExecution)).collect(Collectors.joining());
    return "<p>" + EXPLANATION + "</p>" + (rows.isEmpty() ? "<p>No query on a colocated table has ended yet.</p>"
        : "<table class=\"table table-bordered table-sm table-striped\">" + HEAD + "<tbody>" + rows + "</tbody></table>");
  }

  private static String row(Query query, String linkToExecution) {
    String link = "<a href=\"" + Utility.escape(linkToExecution) + query.execution() + "\">" + query.execution() + "</a>";
    String verdicts = query.verdicts().stream().map(VerdictTable::line).collect(Collectors.joining());
    return Stream.of(link, Utility.escape(query.description()), query.endedAt().truncatedTo(ChronoUnit.SECONDS).toString(),
            String.valueOf(query.took().toMillis() / 1000.0), verdicts.isEmpty() ? "no join, group-by or window" : verdicts)
        .map(cell -> "<td>" + cell + "</td>").collect(Collectors.joining("", "<tr>", "</tr>"));
  }

  private static String line(Verdict verdict) {
    return "<div>" + (verdict.colocate() ? "&#10003; " : "&#10007; ") + Utility.escape(verdict.text()) + "</div>";
  }
}
