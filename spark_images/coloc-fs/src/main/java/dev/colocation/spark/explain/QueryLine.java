package dev.colocation.spark.explain;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.explain.RecentQueries.Query;
import dev.colocation.spark.explain.RecentQueries.Verdict;

/**
 * A query as a line of the driver's log, which {@code colocation ui} reads: a mark and a JSON object.
 *
 * <p>It names tables, columns and verdicts, and no statement: statements hold values, and logs are kept elsewhere and read by others.
 * Python's {@code QueryLine} parses it; tests/contract/query-lines.json has cases.
 */
final class QueryLine {
  private static final String MARK = "COLOCATION_QUERY ";
  private static final int MOST_ENTRIES = 20;  // of tables, and of verdicts
  private static final int MOST_CHARACTERS = 500;  // of each, so that a line has less than 64 KiB
  private static final ObjectMapper JSON = new ObjectMapper();

  private QueryLine() {}

  static String of(Query query) {
    ObjectNode line = JSON.createObjectNode();
    line.put("execution", query.execution()).put("endedAt", query.endedAt().toString()).put("seconds", query.took().toMillis() / 1000.0);
    ArrayNode tables = line.putArray("tables");
    query.tables().stream().limit(MOST_ENTRIES).map(QueryLine::cut).forEach(tables::add);
    ArrayNode verdicts = line.putArray("verdicts");
    query.verdicts().stream().limit(MOST_ENTRIES).forEach(one -> add(verdicts, one));
    return MARK + line;
  }

  private static void add(ArrayNode verdicts, Verdict verdict) {
    verdicts.addObject().put("colocate", verdict.colocate()).put("text", cut(verdict.text()));
  }

  private static String cut(String text) {
    return text.length() <= MOST_CHARACTERS ? text : text.substring(0, MOST_CHARACTERS - 1) + "…";
  }
}
