package dev.colocation.spark.ui;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.colocation.spark.explain.RecentQueries.Query;
import dev.colocation.spark.explain.RecentQueries.Verdict;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import org.junit.jupiter.api.Test;

final class VerdictTableTest {
  private static final Instant ENDED = Instant.parse("2026-11-27T10:00:00.25Z");

  @Test
  void showsEachQueryWithItsVerdicts() {
    Query query = new Query(7, "q3", ENDED, Duration.ofMillis(1250), List.of("orders"),
        List.of(new Verdict(true, "a join: colocate: true"), new Verdict(false, "a group-by: colocate: false, reason: r")));
    assertTrue(VerdictTable.html(List.of(query), "/SQL/execution/?id=").endsWith(
        "<tr><td><a href=\"/SQL/execution/?id=7\">7</a></td><td>q3</td><td>2026-11-27T10:00:00Z</td><td>1.25</td>"
            + "<td><div>&#10003; a join: colocate: true</div><div>&#10007; a group-by: colocate: false, reason: r</div></td></tr>"
            + "</tbody></table>"));
  }

  @Test
  void saysWhenThereIsNothingYet() {
    assertTrue(VerdictTable.html(List.of(), "").contains("No query on a colocated table has ended yet"));
    Query scan = new Query(1, "", ENDED, Duration.ZERO, List.of("orders"), List.of());
    assertTrue(VerdictTable.html(List.of(scan), "").contains("<td>no join, group-by or window</td>"));
  }

  /** Statements and names of columns are users'. */
  @Test
  void escapesWhatUsersWrote() {
    String hostile = "<script>alert('1')</script>\"&";
    String shown = VerdictTable.html(List.of(new Query(1, hostile, ENDED, Duration.ZERO, List.of("orders"), List.of(new Verdict(true, hostile)))), hostile);
    assertFalse(shown.contains("<script>"));
    assertEquals(3, shown.split("&lt;script&gt;", -1).length - 1);
  }
}
