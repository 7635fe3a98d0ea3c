"""The driver of `colocation sql`: tables by name through the catalog, and rows in the pieces that travel."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from colocation.model.driver_output import ResultParser
from colocation.spark.jobs import sql, statement_result
from tests.integration.control_plane import ControlPlane
from tests.spark.cluster_tables import ClusterTables
from tests.spark.conftest import MAP
from tests.spark.loopback import LoopbackAgents

pytestmark = pytest.mark.spark

NAMESPACE = "sql-job"
ALL_TYPES = """SELECT id, cast(id AS DECIMAL(10,2)), DATE'2024-01-01', TIMESTAMP'2024-01-01 12:00:00', array(id),
               map(id, 'x'), struct(id, 'y'), double('NaN'), double('-Infinity'), 1.5D, binary('ab'), string(NULL),
               true, 'ü"' FROM range(0, 3, 1, 2) ORDER BY id DESC"""
ALL_TYPES_OF_2 = [2, "2.00", "2024-01-01", "2024-01-01 12:00:00", [2], {"2": "x"}, [2, "y"], "NaN", "-Infinity", 1.5,
                  "6162", None, True, 'ü"']  # fmt: skip
TIMES = """SELECT t, t + INTERVAL '0.5' SECOND AS t, TIMESTAMP_NTZ'2026-07-01 10:00:00' AS n, array(t, NULL) AS a,
           map(t, array(t)) AS m, struct(1, struct(t)) AS s, IF(x = 0, t, NULL) AS none
           FROM (SELECT timestamp_seconds(1782900000) AS t, id + 1 AS x FROM range(0, 1, 1, 1))"""
MANY = "SELECT a.id, b.id AS x FROM range(0, 50000) a JOIN range(0, 70000) b ON a.id = b.id ORDER BY a.id"


@pytest.fixture(scope="module")
def tables(application: SparkSession, agents: LoopbackAgents, plane: ControlPlane) -> ClusterTables:
    """``orders`` with two snapshots of 100 and 150 rows, and ``line-items``."""
    made = ClusterTables(plane, agents, NAMESPACE)
    made.add_group("sales", ["bigint"], MAP)
    made.add_table("orders", application.range(0, 100).withColumnRenamed("id", "k"), ["k"])
    made.load(application.range(100, 150).withColumnRenamed("id", "k"), "orders")
    made.add_table("line-items", application.range(0, 120).withColumnRenamed("id", "k"), ["k"])
    return made


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> Iterator[SparkSession]:
    """As the job makes it."""
    one = application.newSession()
    one.conf.set(f"spark.sql.catalog.{sql.CATALOG}.kubeconfig", str(tables.plane.kubeconfig))
    sql.use_catalog(one, NAMESPACE)
    one.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    return one


def arrived(result: sql.StatementResult) -> tuple[list[str] | None, list[list[Any]], dict[str, Any]]:
    """What the reader has in the end."""
    parser = ResultParser()
    rows = [row for chunk in result.chunks() for row in parser.rows(chunk)]
    return parser.columns, rows, parser.summary or {}


def answer(session: SparkSession, statement: str, *, with_plan: bool = False) -> Any:
    return arrived(sql.answer(session, statement, with_plan=with_plan))


def test_tables_are_named_as_in_the_cluster(session: SparkSession) -> None:
    """With and without their namespace; the verdict is the executed plan's, and older snapshots are SQL's."""
    join = f"SELECT count(*) AS n FROM orders a JOIN `{NAMESPACE}`.`line-items` b ON a.k = b.k"
    columns, rows, summary = answer(session, join, with_plan=True)
    assert (columns, rows, summary["exchanges"]) == (["n"], [[120]], 0)
    assert [one["colocate"] for one in summary["joins"]] == [True]
    assert "colocate: true" in summary["explain"]
    assert summary["local_bytes"] + summary["remote_bytes"] > 0
    assert answer(session, "SELECT count(*) FROM orders VERSION AS OF 1")[1] == [[100]]
    assert answer(session, "SELECT k FROM orders WHERE k < 3 ORDER BY k")[1] == [[0], [1], [2]]
    assert ["line-items"] in [row[1:2] for row in answer(session, "SHOW TABLES")[1]]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        answer(session, "SELECT * FROM nothing")


def test_a_wrong_statement_is_reported_once(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the exception that ends the driver, whose last line the command shows."""
    monkeypatch.setattr(PySparkLogger.getLogger("SQLQueryContextLogger"), "disabled", False)
    sql.say_errors_once()
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        answer(session, "SELECT nothing FROM orders")
    assert "SQLQueryContextLogger" not in capfd.readouterr().err


def test_a_statement_reports_what_it_committed(session: SparkSession, tables: ClusterTables) -> None:
    """Rows, files and snapshot, as the commit has them; nothing of what came before, and nothing of queries."""
    tables.add_table("noted", session.range(0, 4).withColumnRenamed("id", "k"), ["k"])
    insert = "INSERT INTO noted SELECT id FROM range(10, 13)"
    expected = {"change": "append", "rows": 3, "snapshot_id": 2, "was_committed_before": False}
    [done] = answer(session, insert)[2]["commits"]
    assert done.items() >= expected.items() and done["files"] in (1, 2, 3)
    assert done["table"].replace("`", "").endswith(f"{NAMESPACE}.noted")
    [nothing] = answer(session, f"{insert} WHERE id > 99")[2]["commits"]
    assert nothing.items() >= {**expected, "rows": 0, "files": 0}.items()
    [emptied] = answer(session, "DELETE FROM noted")[2]["commits"]
    assert (emptied["rows"], emptied["snapshot_id"]) == (0, 3)
    assert answer(session, "SELECT count(*) FROM noted")[2]["commits"] == []


def test_explain_runs_nothing(session: SparkSession) -> None:
    """The plan is the one row, the verdicts are next to it."""
    statement = "EXPLAIN SELECT a.k FROM orders a JOIN `line-items` b ON a.k = b.k"
    columns, [[plan]], summary = answer(session, statement)
    assert (columns, [one["colocate"] for one in summary["joins"]]) == (["plan"], [True])
    assert "== Physical Plan ==" in plan


def test_a_change_is_explained_before_it_runs(session: SparkSession, tables: ClusterTables) -> None:
    """By ``EXPLAIN``, and by ``--explain`` with what was committed."""
    tables.add_table("altered", session.range(0, 4).selectExpr("id AS k", "id AS v"), ["k"])
    update = "UPDATE altered SET v = 7 WHERE k < 2"
    verdicts = [("rows that change", 0, 0), ("rows that stay", 0, 0)]
    _, [[plan]], explained = answer(session, f"EXPLAIN {update}")
    _, [counts], done = answer(session, update, with_plan=True)
    for text, summary in ((plan, explained), (done["explain"], done)):
        assert "rows that stay: shuffles: 0, sorts: 0" in text and "InPlaceRows" in text
        assert [(one["query"], one["shuffles"], one["sorts"]) for one in summary["changes"]] == verdicts
    assert (counts[1], len(done["commits"])) == (2, 1)


@pytest.mark.parametrize("few_rows", [0, 1000])
def test_values_of_all_types(session: SparkSession, monkeypatch: pytest.MonkeyPatch, few_rows: int) -> None:
    """They are the same whether the driver or the executors make the lines."""
    monkeypatch.setattr(statement_result, "FEW_ROWS", few_rows)
    _, rows, _ = answer(session, ALL_TYPES)
    assert (rows[0], [row[0] for row in rows]) == (ALL_TYPES_OF_2, [2, 1, 0])
    json.dumps(rows, allow_nan=False)


@pytest.mark.parametrize("few_rows", [0, 1000], ids=["by the executors", "by the driver"])
@pytest.mark.parametrize(
    ("zone", "noon"),
    [("Europe/Berlin", "12:00:00"), ("+02:00", "12:00:00"), ("GMT+2", "12:00:00"), ("UTC", "10:00:00"),
     ("America/Los_Angeles", "03:00:00"), ("PST", "03:00:00"), ("-01:30", "08:30:00")],
)  # fmt: skip
def test_times_are_of_the_sessions_zone(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, zone: str, noon: str, few_rows: int
) -> None:
    """Also within other values and of two columns of one name; without a time zone they stay as they are."""
    monkeypatch.setattr(statement_result, "FEW_ROWS", few_rows)
    session.conf.set("spark.sql.session.timeZone", zone)
    columns, [row], _ = answer(session, TIMES)
    time = f"2026-07-01 {noon}"
    assert columns == ["t", "t", "n", "a", "m", "s", "none"]
    assert row == [time, f"{time}.5", "2026-07-01 10:00:00", [time, None], {time: [time]}, [1, [time]], None]


def test_a_limit_reads_no_more_than_it_needs_of_times_too(session: SparkSession) -> None:
    """The text is made of the rows that are chosen."""
    rows = session.sql("SELECT timestamp_seconds(id) AS t FROM range(100000) LIMIT 5")
    df = statement_result.with_times_as_text(rows)
    assert statement_result.has_few_rows(df)
    assert "CollectLimit" in df._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize("small_bytes", [0, 1 << 30], ids=["one partition after the other", "at once"])
def test_many_rows_are_in_order(session: SparkSession, monkeypatch: pytest.MonkeyPatch, small_bytes: int) -> None:
    """The executed plan is the statement's own, and final when the rows travel."""
    monkeypatch.setattr(statement_result, "SMALL_BYTES", small_bytes)
    result = sql.answer(session, MANY, with_plan=False)
    assert isinstance(result.pieces, list) == (small_bytes > 0)
    _, rows, summary = arrived(result)
    assert rows == [[number, number] for number in range(50000)]
    assert summary["final"]


@pytest.mark.parametrize(
    ("statement", "few"),
    [
        ("SELECT count(*) FROM range(10)", True),
        ("SELECT * FROM range(10) LIMIT 5", True),
        ("SHOW TABLES IN spark_catalog.default", True),
        ("SELECT * FROM range(100000)", False),
        ("SELECT id FROM range(100000) LIMIT 5000", False),
    ],
)
def test_few_rows_are_collected(session: SparkSession, statement: str, few: bool) -> None:
    """Where the plan reports that there are few: no second job, and a LIMIT reads no more than it needs."""
    assert statement_result.has_few_rows(session.sql(statement)) == few
