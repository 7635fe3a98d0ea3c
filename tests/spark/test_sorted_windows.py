"""Windows up to the current row over colocated tables: row by row in generated code, and always Spark's answers."""

import os
import random
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
    add_table(catalog, "huge", application.sql("SELECT 7L AS k, id AS n FROM range(20000)"), ["k"])
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
    pytest.param("SELECT k, n, lag(n) OVER (PARTITION BY k ORDER BY n) AS a, lag(word, 3, '-') OVER (PARTITION BY k "
                 "ORDER BY n) AS b, lag(real, 2, day) OVER (PARTITION BY k ORDER BY n) AS c, lead(price, -2, price) "
                 "OVER (PARTITION BY k ORDER BY n) AS d FROM (SELECT *, CAST(n AS DECIMAL(25, 3)) AS price "
                 "FROM single)", id="rows before"),
])  # fmt: skip
def test_windows_up_to_the_current_row(session: SparkSession, statement: str) -> None:
    """Every window is part of generated code; what is above and below it does not matter."""
    plan, found, expected = both_answers(session, statement)
    assert found == expected
    assert set(windows(plan)) == {f"*{STREAMED}"}


@pytest.mark.parametrize("statement", [
    pytest.param("SELECT k, n, word, sum(n) OVER (PARTITION BY k) AS s, count(*) OVER (PARTITION BY k) AS c, "
                 "min(day) OVER (PARTITION BY k) AS i, max(real) OVER (PARTITION BY k) AS m, avg(n) OVER "
                 "(PARTITION BY k) AS a FROM single", id="the whole partition"),
    pytest.param("SELECT k, n, word, sum(n) OVER (PARTITION BY k ORDER BY day) AS s, row_number() OVER "
                 "(PARTITION BY k ORDER BY day, n) AS r, rank() OVER (PARTITION BY k ORDER BY day) AS q, "
                 "max(n) OVER (PARTITION BY k ORDER BY day DESC) AS m FROM single", id="rows of equal order"),
    pytest.param("SELECT k, n, lead(word) OVER w AS a, lead(word) OVER w AS e, lead(n, 3, -n) OVER w AS b, "
                 "lag(day, 2) OVER w AS c, lead(real, 200, 7) OVER w AS d, row_number() OVER w AS r, "
                 "sum(n) OVER (PARTITION BY k ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) "
                 "AS s FROM single WINDOW w AS (PARTITION BY k ORDER BY n)", id="rows behind"),
    pytest.param("SELECT k, n, word, ntile(3) OVER w AS a, ntile(200) OVER w AS b, percent_rank() OVER w AS c, "
                 "percent_rank() OVER w AS d, lead(word) OVER w AS e, lag(n) OVER w AS f, "
                 "row_number() OVER w AS g FROM single WINDOW w AS (PARTITION BY k ORDER BY day, n)",
                 id="ranks of a size"),
    pytest.param("SELECT k, day, percent_rank() OVER (PARTITION BY k ORDER BY day) AS r FROM single", id="equal ranks"),
    pytest.param("SELECT k, count(*) AS c, sum(s) AS s, max(l) AS l FROM (SELECT k, sum(n) OVER (PARTITION BY k) AS s, "
                 "lead(n) OVER (PARTITION BY k ORDER BY n) AS l FROM single) GROUP BY k", id="grouped"),
    pytest.param("SELECT a.k, a.n, a.s, b.n AS o FROM (SELECT k, n, sum(n) OVER (PARTITION BY k) AS s FROM single) a "
                 "JOIN (SELECT k, n, sum(n) OVER (PARTITION BY k ORDER BY day) AS s FROM appended) b "
                 "ON a.k = b.k AND a.n < 60", id="joined"),
    pytest.param("SELECT k, n, explode(array(n, s)) AS x FROM (SELECT l.k, r.n, sum(r.n) OVER (PARTITION BY l.k) AS s "
                 "FROM single l JOIN typed r ON l.k = r.k)", id="several rows of a row"),
    pytest.param("SELECT k, n, c FROM (SELECT k, n, count(*) OVER (PARTITION BY k) AS c FROM single) WHERE c > 6 "
                 "ORDER BY n LIMIT 12", id="limit"),
    pytest.param("SELECT k, sum(n) OVER (PARTITION BY k) AS s FROM single WHERE n < 0", id="no rows"),
])  # fmt: skip
@pytest.mark.parametrize("in_memory", ["4096", "2"])
def test_rows_that_wait_for_their_values(session: SparkSession, statement: str, in_memory: str) -> None:
    """Those of a partition, or of equal order; they spill as those of Spark's own operator."""
    session.conf.set("spark.sql.windowExec.buffer.in.memory.threshold", in_memory)
    session.conf.set("spark.sql.windowExec.buffer.spill.threshold", "60" if in_memory == "2" else in_memory)
    plan, found, expected = both_answers(session, statement)
    assert found == expected
    assert set(windows(plan)) == {f"*{STREAMED}"}


def test_a_partition_that_spills(session: SparkSession) -> None:
    """Rows of one key do not have to fit into memory."""
    session.conf.set("spark.sql.windowExec.buffer.spill.threshold", "8000")
    plan, found, expected = both_answers(
        session, "SELECT count(*) AS c, sum(s) AS s, max(l) AS l, min(n) AS n FROM (SELECT k, n, sum(n) OVER "
        "(PARTITION BY k) AS s, lead(n, 9) OVER (PARTITION BY k ORDER BY n) AS l FROM huge)")  # fmt: skip
    assert found == expected and set(windows(plan)) == {f"*{STREAMED}"}


def test_first_rows_of_each_key(session: SparkSession) -> None:
    """They are counted in the window itself; a sum, which might fail for the rows that are left out, is not."""
    first = "SELECT * FROM (SELECT k, n, {} AS r{} FROM single) WHERE r < 3"
    for function in ("row_number()", "rank()", "dense_rank()"):
        plan, found, expected = both_answers(session, first.format(f"{function} OVER (PARTITION BY k ORDER BY n)", ""))
        assert found == expected and windows(plan) == [f"*{STREAMED}"] and "WindowGroupLimit" not in plan
    plan, found, expected = both_answers(
        session, first.format("row_number() OVER (PARTITION BY k ORDER BY n)", f", sum(n) OVER {BY_N} AS s"))
    assert found == expected and "WindowGroupLimit" in plan


FUNCTIONS = (
    "sum({}) OVER ({})", "count({}) OVER ({})", "min({}) OVER ({})", "max({}) OVER ({})", "avg({}) OVER ({})",
    "first({}) OVER ({})", "last({}) IGNORE NULLS OVER ({})",
)  # fmt: skip
OFFSETS = ("lag({}) OVER ({})", "lag({0}, 2, {0}) OVER ({1})", "lead({}) OVER ({})", "lead({}, 3) OVER ({})",
           "lead({0}, -4, {0}) OVER ({1})", "lag({}, 0) OVER ({})", "lag({}, 90) OVER ({})")  # fmt: skip
RANKS = ("row_number() OVER ({1})", "rank() OVER ({1})", "dense_rank() OVER ({1})", "ntile(3) OVER ({1})",
         "percent_rank() OVER ({1})", "cume_dist() OVER ({1})")
FRAMES = ("", " ROWS UNBOUNDED PRECEDING", " RANGE UNBOUNDED PRECEDING", " ROWS 2 PRECEDING",
          " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
          " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING")  # fmt: skip
NUMBERS = ("n", "day", "price", "real", "CAST(n AS INT) - 300")
ANY = (*NUMBERS, "word", "CAST(word AS BINARY)", "make_dt_interval(0, 0, n)", "n % 2 = 0",
       "DATE'2020-01-01' + day", "timestamp_micros(n)", "array(n)", "NULL")  # fmt: skip


@pytest.mark.parametrize("seed", [
    pytest.param(int(seed), marks=() if seed == "1" or "SEEDS" in os.environ else DEEP)
    for seed in os.environ.get("SEEDS", "1,2,3").split(",")
])  # fmt: skip
def test_random_windows(session: SparkSession, seed: int) -> None:
    """Spark's operator gives the same rows, whatever the functions, frames and settings."""
    chosen = random.Random(seed)
    settings = {
        "spark.sql.windowExec.buffer.in.memory.threshold": ("1", "3", "4096"),
        "spark.sql.windowExec.buffer.spill.threshold": ("5", "60", "4096"),
        "spark.sql.parquet.columnarReaderBatchSize": ("3", "4096"),
        "spark.sql.codegen.methodSplitThreshold": ("1", "1024"),
        "spark.colocation.minPartitionBytes": ("1", "64m"),
    }
    streamed = 0
    for _ in range(8):
        for name, values in settings.items():
            session.conf.set(name, chosen.choice(values))
        keys = chosen.choice(["k", "k", "k, day", "day, k"])
        columns = ["k", "n"]
        for _ in range(chosen.randint(1, 4)):
            order = chosen.choice([" ORDER BY n", " ORDER BY n", " ORDER BY n DESC", " ORDER BY day, n"])
            kind = chosen.choice(["aggregate", "aggregate", "offset", "rank"])
            if kind == "aggregate":
                peers = chosen.choice(["", " ORDER BY day", order]) if chosen.random() < 0.7 else order
                frame = chosen.choice(FRAMES) if peers == order else chosen.choice(["", FRAMES[-1]] if peers else [""])
                function = chosen.choice(FUNCTIONS)
                of = chosen.choice(NUMBERS if function[:3] in ("sum", "avg") else ANY)
                if peers != order and function[:2] in ("fi", "la", "mi", "ma"):  # of 0.0 and -0.0 the first one counts
                    function, of = FUNCTIONS[2], chosen.choice(NUMBERS[:3])
                columns.append(function.format(of, f"PARTITION BY {keys}{peers}{frame}"))
            else:
                function, of = chosen.choice(OFFSETS if kind == "offset" else RANKS), chosen.choice(ANY)
                columns.append(function.format(of, f"PARTITION BY {keys}{order}"))
        named = ", ".join(f"{column} AS c{place}" for place, column in enumerate(columns))
        table = chosen.choice(["single", "appended", "daily", "(SELECT * FROM single WHERE n % 13 = 0 OR n < 30)"])
        rows = f"(SELECT *, CAST(n AS DECIMAL(30, 4)) / 7 AS price FROM {table})"
        above = chosen.choice(["{}", "{}", "SELECT count(*) AS c, max(c1) AS m, count(c2) AS o FROM ({})"])
        statement = above.format(f"SELECT {named} FROM {rows}")
        plan, found, expected = both_answers(session, statement)
        assert found == expected, statement
        streamed += STREAMED in plan
    assert streamed


def test_rows_in_the_files_order_need_no_sort(session: SparkSession) -> None:
    """The window, its scan and nothing between them."""
    plan, found, expected = both_answers(
        session, "SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM numbered")
    assert found == expected and len(found) == 500
    assert IN_ORDER in plan and "Sort [" not in plan and "Exchange" not in plan


@pytest.mark.parametrize("statement", [
    pytest.param("SELECT k, n, sum(n) OVER (PARTITION BY k ORDER BY real) AS s FROM single", id="order by a fraction"),
    pytest.param("SELECT k, n, sum(n) OVER (PARTITION BY k ORDER BY n ROWS 2 PRECEDING) AS s FROM single",
                 id="the last rows"),
    pytest.param("SELECT k, n, lag(n) IGNORE NULLS OVER (PARTITION BY k ORDER BY n) AS l FROM single", id="no NULL"),
    pytest.param("SELECT k, n, lag(n, 65) OVER (PARTITION BY k ORDER BY n) AS l FROM single", id="a row far before"),
    pytest.param("SELECT k, n, lag(array(n)) OVER (PARTITION BY k ORDER BY n) AS l FROM single", id="an array before"),
    pytest.param("SELECT k, n, sum(n) OVER (PARTITION BY k ORDER BY n) AS r, lead(n) OVER (PARTITION BY k "
                 "ORDER BY n) AS l FROM single", id="equal order and rows behind"),
    pytest.param("SELECT k, n, cume_dist() OVER (PARTITION BY k ORDER BY n) AS t FROM single", id="known by the size"),
    pytest.param("SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n) AS r, cume_dist() OVER (PARTITION BY k "
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
        "SELECT n, word, lag(word, 2) OVER (PARTITION BY k ORDER BY n) AS b, sum(price) OVER (PARTITION BY k) AS s, "
        "lead(word) OVER (PARTITION BY k ORDER BY n) AS l FROM typed",
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
