"""Windows up to the current row over colocated tables: row by row in generated code, and always Spark's answers."""

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession, Window, functions

from colocation.spark import explain_json
from tests.spark.conftest import add_table
from tests.spark.loopback import LoopbackAgents
from tests.spark.sorted_tables import IN_ORDER, TRUST, TYPED, both_answers, load_events, opened, restored
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

STREAMED = "SortedWindow"
DEEP = pytest.mark.deep
"""Of further cases of what the others prove."""
BY_N = "(PARTITION BY k ORDER BY n ROWS UNBOUNDED PRECEDING)"


@pytest.fixture(scope="module")
def tables(application: SparkSession, agents: LoopbackAgents) -> FakeCatalog:
    """The events, rows with partition columns of many types, and events whose files are sorted by key and number."""
    catalog = load_events(application, agents)
    add_table(catalog, "typed", application.sql(TYPED), ["k"], sorted_by=("k", "word", "price", "raw"))
    add_table(catalog, "numbered", application.sql(TYPED), ["k"], sorted_by=("k", "n"))
    return catalog


@pytest.fixture(
    scope="module",
    params=[pytest.param("true", id="adaptive"), pytest.param("false", id="static", marks=pytest.mark.deep)],
)
def shared(application: SparkSession, tables: FakeCatalog, request: pytest.FixtureRequest) -> SparkSession:
    """One session for all tests."""
    return opened(application.newSession(), tables, request.param)


@pytest.fixture
def session(shared: SparkSession) -> Iterator[SparkSession]:
    """What a test sets is taken back."""
    yield from restored(shared)


def windows(plan: str) -> list[str]:
    """The windows of a plan, topmost first; a ``*`` before those in generated code."""
    return [("*" if code else "") + name for code, name in re.findall(r"(\*\(\d+\) )?(\w*Window) \[", plan)]


@pytest.mark.parametrize("statement", [
    pytest.param("SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM numbered", id="row_number"),
    pytest.param("SELECT k, day, n, rank() OVER (PARTITION BY k ORDER BY day) AS r, "
                 "dense_rank() OVER (PARTITION BY k ORDER BY day) AS d FROM single", id="ranks"),
    pytest.param(f"SELECT k, n, sum(n) OVER {BY_N} AS s, avg(day) OVER {BY_N} AS a, count(real) OVER {BY_N} AS c, "
                 f"max(real) OVER {BY_N} AS m, min(day) OVER {BY_N} AS i, round(stddev(n) OVER {BY_N}, 6) AS d "
                 "FROM single", id="running aggregates"),
    pytest.param("SELECT k, n, sum(price) OVER (PARTITION BY k, word ORDER BY n ROWS UNBOUNDED PRECEDING) AS s "
                 "FROM typed", id="decimals, a string among the keys"),
    pytest.param("SELECT n, row_number() OVER (PARTITION BY raw, price, word, k ORDER BY n) AS r FROM typed",
                 id="keys of all types"),
    pytest.param(f"SELECT k, n, first(day) OVER {BY_N} AS f, last(real) OVER {BY_N} AS l, "
                 f"first(real) IGNORE NULLS OVER {BY_N} AS g FROM single", id="first and last"),
    pytest.param("SELECT * FROM (SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n DESC) AS r FROM single) "
                 "WHERE r = 1", id="the first of each key"),
    pytest.param("SELECT r, count(*) AS c, sum(s) AS s FROM (SELECT row_number() OVER (PARTITION BY k ORDER BY n) "
                 f"AS r, sum(n) OVER {BY_N} AS s FROM single) GROUP BY r", id="grouped", marks=DEEP),
    pytest.param("SELECT a.k, a.n, a.r, b.n AS o FROM (SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n) AS r "
                 "FROM single) a JOIN (SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n) AS r "
                 "FROM appended) b ON a.k = b.k AND a.r = b.r", id="joined"),
    pytest.param("SELECT l.k, l.n, r.n AS o, row_number() OVER (PARTITION BY l.k ORDER BY l.n, r.n) AS x "
                 "FROM single l JOIN typed r ON l.k = r.k", id="over a join"),
    pytest.param("SELECT k, n, explode(array(r, s)) AS x FROM (SELECT k, n, row_number() OVER "
                 f"(PARTITION BY k ORDER BY n) AS r, sum(n) OVER {BY_N} AS s FROM single)", id="several rows of a row"),
    pytest.param("SELECT count(nullif(r, 0)) AS c FROM (SELECT row_number() OVER (PARTITION BY k ORDER BY n) AS r "
                 "FROM single LIMIT 5)", id="limit", marks=DEEP),
    pytest.param("SELECT k, n, r, row_number() OVER (PARTITION BY k, r ORDER BY n) AS q FROM (SELECT k, n, "
                 "rank() OVER (PARTITION BY k ORDER BY day) AS r FROM single)", id="a window of a window"),
    pytest.param("SELECT k, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM single WHERE n < 0", id="no rows"),
])  # fmt: skip
def test_windows_up_to_the_current_row(session: SparkSession, statement: str) -> None:
    """Every window is part of generated code; what is above and below it does not matter."""
    plan, found, expected = both_answers(session, statement)
    assert found == expected
    assert set(windows(plan)) == {f"*{STREAMED}"}


def test_rows_in_the_files_order_need_no_sort(session: SparkSession) -> None:
    """The window, its scan and nothing between them."""
    plan, found, expected = both_answers(
        session, "SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM numbered")
    assert found == expected and len(found) == 500
    assert IN_ORDER in plan and "Sort [" not in plan and "Exchange" not in plan


@pytest.mark.parametrize("statement", [
    pytest.param("SELECT k, n, sum(n) OVER (PARTITION BY k) AS s FROM single", id="the whole partition"),
    pytest.param("SELECT k, n, sum(n) OVER (PARTITION BY k ORDER BY day) AS s FROM single", id="rows of equal order"),
    pytest.param("SELECT k, n, lag(n) OVER (PARTITION BY k ORDER BY n) AS l FROM single", id="the row before"),
    pytest.param("SELECT k, n, ntile(3) OVER (PARTITION BY k ORDER BY n) AS t FROM single", id="known by the size"),
    pytest.param("SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n) AS r, lead(n) OVER (PARTITION BY k "
                 "ORDER BY n) AS l FROM single", id="one of two"),
    pytest.param("SELECT n, row_number() OVER (PARTITION BY real ORDER BY n) AS r FROM single", id="fractions"),
    pytest.param("SELECT n, row_number() OVER (PARTITION BY k, w ORDER BY n) AS r FROM (SELECT *, "
                 "word COLLATE UNICODE_CI AS w FROM typed)", id="collated"),
    pytest.param("SELECT n, row_number() OVER (ORDER BY n) AS r FROM single", id="no partition"),
    pytest.param("SELECT day, n, row_number() OVER (PARTITION BY day ORDER BY n) AS r FROM daily", id="a shuffle"),
    pytest.param(f"SELECT k, n, max(word) OVER {BY_N} AS w FROM single", id="greatest string"),
])  # fmt: skip
def test_what_is_not_understood_stays_as_spark_planned_it(session: SparkSession, statement: str) -> None:
    """Functions that need rows after the current one, or values that their bytes do not distinguish."""
    plan, found, expected = both_answers(session, statement)
    assert found == expected and found
    assert windows(plan) == ["Window"]


def test_tables_of_others(session: SparkSession) -> None:
    """Plans without a table of ours are Spark's."""
    plan, found, expected = both_answers(
        session, "SELECT id, row_number() OVER (PARTITION BY id % 3 ORDER BY id) AS r FROM range(50)")
    assert found == expected and windows(plan) == ["Window"]


@pytest.mark.parametrize("ansi", ["true", pytest.param("false", marks=DEEP)])
@pytest.mark.parametrize(("conf", "value"), [
    ("spark.sql.parquet.columnarReaderBatchSize", "7"),
    ("spark.sql.parquet.enableVectorizedReader", "false"),
    ("spark.sql.codegen.wholeStage", "false"),
    ("spark.sql.codegen.methodSplitThreshold", "1"),
    ("spark.sql.codegen.hugeMethodLimit", "10"),
    ("spark.sql.codegen.splitConsumeFuncByOperator", "false"),
])  # fmt: skip
def test_however_rows_are_read_and_code_is_made(session: SparkSession, conf: str, value: str, ansi: str) -> None:
    """Small batches overwrite the memory of strings; long code is split, or not compiled at all."""
    session.conf.set(conf, value)
    session.conf.set("spark.sql.ansi.enabled", ansi)
    for statement in (
        "SELECT n, sum(price) OVER (PARTITION BY k, word, price ORDER BY n ROWS UNBOUNDED PRECEDING) AS s FROM typed",
        "SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n) AS r, "
        f"sum(CAST(n AS INT)) OVER {BY_N} AS s FROM numbered",
    ):
        plan, found, expected = both_answers(session, statement)
        assert found == expected and STREAMED in plan


def test_one_function_in_two_columns(session: SparkSession) -> None:
    """A DataFrame may use the same object twice."""
    position = functions.row_number().over(Window.partitionBy("k").orderBy("n"))
    session.table("single").select("k", "n", position.alias("a"), position.alias("b")).createOrReplaceTempView("twice")
    plan, found, expected = both_answers(session, "SELECT * FROM twice")
    assert found == expected and STREAMED in plan


def test_overflow_is_what_it_is_without_it(session: SparkSession) -> None:
    """An error with ANSI mode, without it the number that wraps around."""
    statement = f"SELECT k, n, sum(n + 9223372036854775000) OVER {BY_N} AS s FROM single"
    session.conf.set("spark.sql.ansi.enabled", "false")
    plan, found, expected = both_answers(session, statement)
    assert found == expected and STREAMED in plan
    session.conf.set("spark.sql.ansi.enabled", "true")
    for trusted in ("true", "false"):
        session.conf.set(TRUST, trusted)
        with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
            session.sql(statement).collect()


def test_verdicts_see_the_window(session: SparkSession) -> None:
    """Under the name of Spark's operator."""
    rows = session.sql("SELECT k, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM single")
    rows.collect()
    assert [(window["operator"], window["colocate"]) for window in explain_json(rows)["windows"]] == [("Window", True)]
