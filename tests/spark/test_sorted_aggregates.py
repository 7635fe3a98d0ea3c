"""Group-bys over sorted files: no hash table and one phase where groups lie together, and always Spark's answers."""

import itertools
import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus
from colocation.spark import explain_json
from tests.spark.conftest import NODES, add_table
from tests.spark.loopback import LoopbackAgents
from tests.spark.sorted_tables import IN_ORDER, MERGED, TRUST, TYPED, both_answers, load_events, opened, restored
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

HALVES = 3
SORTED = "SortedAggregate"
DEEP = pytest.mark.deep
"""Of further cases of what the others prove."""


@pytest.fixture(scope="module")
def tables(application: SparkSession, agents: LoopbackAgents) -> FakeCatalog:
    """The events, rows sorted by columns of many types, and a table of a group with half the buckets."""
    catalog = load_events(application, agents)
    add_table(catalog, "typed", application.sql(TYPED), ["k"], sorted_by=("k", "word", "price", "raw"))
    catalog.add_group(
        ColocationGroupSpec(bucket_key=("bigint",), buckets=HALVES, replicas=1),
        ColocationGroupStatus(stable=True, reason="", backends_per_bucket_seq=tuple((node,) for node in NODES)),
        name="halves",
    )
    add_table(catalog, "halved", application.sql(TYPED), ["k"], group="halves")
    return catalog


@pytest.fixture(
    scope="module",
    params=[pytest.param("true", id="adaptive"), pytest.param("false", id="static", marks=pytest.mark.deep)],
)
def shared(
    application: SparkSession, tables: FakeCatalog, request: pytest.FixtureRequest
) -> SparkSession:
    """One session for all tests."""
    return opened(application.newSession(), tables, request.param)


@pytest.fixture
def session(shared: SparkSession) -> Iterator[SparkSession]:
    """What a test sets is taken back."""
    yield from restored(shared)


def aggregates(plan: str) -> list[str]:
    """The aggregates of a plan, topmost first; a ``*`` before those in generated code."""
    return [("*" if code else "") + name for code, name in re.findall(r"(\*\(\d+\) )?(\w*Aggregate)\(", plan)]


FUNCTIONS = ("count(*) AS c, sum(n) AS s, avg(n) AS a, round(stddev(n), 6) AS d, max(real) AS m, min(day) AS i, "
             "first(k) AS f")  # fmt: skip
IN_GROUPS = "(SELECT k FROM single GROUP BY k HAVING sum(n) > 1500)"


@pytest.mark.parametrize("statement", [
    pytest.param(f"SELECT k, {FUNCTIONS} FROM single GROUP BY k", id="functions"),
    pytest.param("SELECT k, sum(n) FILTER (WHERE n % 2 = 0) AS even, count(n) FILTER (WHERE word > 'é3') AS many, "
                 "sum(n) AS s FROM single GROUP BY k", id="filters"),
    pytest.param("SELECT k + 1 AS next, 2 * sum(n) + k AS s FROM single GROUP BY k",
                 id="expressions of results", marks=DEEP),
    pytest.param("SELECT DISTINCT k FROM single", id="distinct rows", marks=DEEP),
    pytest.param("SELECT k, max(n) AS m FROM single GROUP BY k HAVING sum(n) > 1500", id="having", marks=DEEP),
    pytest.param("SELECT j, sum(m) AS s FROM (SELECT k AS j, n + 1 AS m FROM single WHERE n > 9) GROUP BY j",
                 id="renamed", marks=DEEP),
    pytest.param("SELECT k, day, sum(n) AS s FROM daily GROUP BY k, day", id="key, partition"),
    pytest.param("SELECT day, k, sum(n) AS s FROM daily GROUP BY day, k HAVING day > 1",
                 id="partition, key", marks=DEEP),
    pytest.param("SELECT k, word, sum(n) AS s FROM typed GROUP BY k, word", id="a string among the keys"),
    pytest.param("SELECT raw, price, word, k, sum(n) AS s FROM typed GROUP BY raw, price, word, k",
                 id="keys of all types"),
    pytest.param("SELECT l.k, count(*) AS c, sum(r.n) AS s FROM single l JOIN single r ON l.k = r.k GROUP BY l.k",
                 id="a merge join"),
    pytest.param("SELECT r.k, sum(l.n) AS s FROM daily l JOIN daily r ON l.k = r.k AND l.day = r.day "
                 "GROUP BY r.k, l.day", id="a merge join by partition and key", marks=DEEP),
    pytest.param("SELECT k, rn, sum(n) AS s FROM (SELECT l.k, l.n, r.n AS rn FROM single l LEFT JOIN "
                 "(SELECT k, max(n) AS n FROM single GROUP BY k) r ON l.k = r.k) GROUP BY k, rn HAVING s > 0",
                 id="next to a superset of the key"),
    pytest.param(f"SELECT k, sum(n) AS s FROM single WHERE k IN {IN_GROUPS} GROUP BY k",
                 id="groups of groups", marks=DEEP),
    pytest.param("SELECT count(*) AS c FROM (SELECT k, sum(n) AS s FROM single GROUP BY k LIMIT 5)", id="limit"),
    pytest.param("SELECT max(s) AS m, count(*) AS c FROM (SELECT k, sum(n) AS s FROM single GROUP BY k)",
                 id="grouped twice", marks=DEEP),
    pytest.param("SELECT k, sum(n) AS s FROM single WHERE n < 0 GROUP BY k", id="no rows", marks=DEEP),
    pytest.param("SELECT k, explode(array(c, s)) AS x FROM "
                 "(SELECT k, count(*) AS c, sum(n) AS s FROM single GROUP BY k)", id="several rows of a group"),
])  # fmt: skip
def test_groups_that_lie_together_need_no_hash_table(session: SparkSession, statement: str) -> None:
    """One phase in generated code, over files in order; what is above and below it does not matter."""
    plan, found, expected = both_answers(session, statement)
    assert found == expected
    assert f"*{SORTED}" in aggregates(plan) and SORTED not in aggregates(plan)
    assert IN_ORDER in plan and MERGED not in plan and "Sort [" not in plan


@pytest.mark.parametrize("statement", [
    pytest.param("SELECT k, sum(n) AS s, max(day) AS m FROM appended GROUP BY k", id="several loads"),
    pytest.param("SELECT k, count(*) AS c, sum(n) AS s FROM daily GROUP BY k", id="several partitions"),
    pytest.param("SELECT day, k, sum(n) AS s FROM both GROUP BY k, day", id="several loads in partitions"),
])  # fmt: skip
def test_a_few_files_are_merged(session: SparkSession, statement: str) -> None:
    """Merging the files of a bucket costs less than hash tables, up to eight of them."""
    plan, found, expected = both_answers(session, statement)
    assert found == expected and found
    assert f"*{SORTED}" in aggregates(plan) and MERGED in plan


@pytest.mark.parametrize("statement", [
    pytest.param("SELECT k, sort_array(collect_list(n)) AS l, count(*) AS c FROM single GROUP BY k", id="collect_list"),
    pytest.param("SELECT k, max(word) AS w, min(word) FILTER (WHERE n > 99) AS v, sum(n) AS s FROM single GROUP BY k",
                 id="greatest string"),
    pytest.param("SELECT k, day, max(word) AS w FROM daily GROUP BY k, day", id="in the files' order"),
    pytest.param("SELECT k, percentile(n, 0.5) AS p, approx_count_distinct(n) AS a FROM single GROUP BY k",
                 id="percentile"),
])  # fmt: skip
def test_functions_without_generated_code(session: SparkSession, statement: str) -> None:
    """They take sorted rows in Spark's own iterator, without a sort, a fallback or a second phase."""
    plan, found, expected = both_answers(session, statement)
    assert found == expected and found
    assert aggregates(plan) == [SORTED]
    assert IN_ORDER in plan and "Sort [" not in plan


@pytest.mark.parametrize("statement", [
    pytest.param("SELECT k, word, sum(n) AS s FROM single GROUP BY k, word", id="superset of the key"),
    pytest.param("SELECT word, sum(n) AS s FROM single GROUP BY word", id="another column", marks=DEEP),
    pytest.param("SELECT day, sum(n) AS s FROM daily GROUP BY day", id="partition only", marks=DEEP),
    pytest.param("SELECT k, sum(n) AS s FROM both GROUP BY k", id="fifteen files"),
    pytest.param("SELECT k DIV 2 AS j, sum(n) AS s FROM single GROUP BY k DIV 2", id="expression"),
    pytest.param("SELECT k, real, count(*) AS c FROM single GROUP BY k, real", id="fractions"),
    pytest.param("SELECT k, w, count(*) AS c FROM (SELECT k, word COLLATE UNICODE_CI AS w FROM typed) GROUP BY k, w",
                 id="collated"),
    pytest.param("SELECT k, count(DISTINCT day) AS d, sum(n) AS s FROM single GROUP BY k", id="count distinct"),
    pytest.param("SELECT k, count(DISTINCT day) AS d, count(DISTINCT word) AS w FROM single GROUP BY k",
                 id="two distinct", marks=DEEP),
    pytest.param("SELECT k, day, sum(n) AS s FROM daily GROUP BY ROLLUP (k, day)", id="rollup"),
    pytest.param("SELECT k, day, sum(n) AS s FROM daily GROUP BY CUBE (k, day)", id="cube", marks=DEEP),
    pytest.param("SELECT k, sum(n) AS s FROM (SELECT * FROM single UNION ALL SELECT * FROM appended) GROUP BY k",
                 id="union", marks=DEEP),
    pytest.param("SELECT l.k, count(*) AS c FROM single l FULL JOIN typed r ON l.k = r.k GROUP BY l.k",
                 id="full join", marks=DEEP),
    pytest.param("SELECT count(*) AS c, sum(n) AS s FROM single", id="no keys"),
])  # fmt: skip
def test_what_is_not_understood_stays_as_spark_planned_it(session: SparkSession, statement: str) -> None:
    """Groups that do not lie together, or not for certain, keep their hash tables."""
    plan, found, expected = both_answers(session, statement)
    assert found == expected and found
    assert SORTED not in plan


@pytest.mark.parametrize("ansi", ["true", pytest.param("false", marks=DEEP)])
@pytest.mark.parametrize(("conf", "value"), [
    ("spark.sql.parquet.columnarReaderBatchSize", "7"),
    ("spark.sql.parquet.enableVectorizedReader", "false"),
    ("spark.sql.codegen.wholeStage", "false"),
    ("spark.sql.codegen.methodSplitThreshold", "1"),
    ("spark.sql.codegen.hugeMethodLimit", "10"),
    ("spark.sql.subexpressionElimination.enabled", "false"),
])  # fmt: skip
def test_however_rows_are_read_and_code_is_made(session: SparkSession, conf: str, value: str, ansi: str) -> None:
    """Small batches overwrite the memory of strings; long code is split, or not compiled at all."""
    session.conf.set(conf, value)
    session.conf.set("spark.sql.ansi.enabled", ansi)
    for statement in (
        "SELECT word, k, price, sum(n) AS s, avg(price) AS a, sum(price * n) AS p, max(price) AS m FROM typed "
        "GROUP BY k, word, price",
        "SELECT k, sum(CAST(n AS INT)) AS s, round(corr(n, day), 6) AS c, bool_or(n > 500) AS b, bit_xor(n) AS x "
        "FROM single GROUP BY k",
    ):
        plan, found, expected = both_answers(session, statement)
        assert found == expected and SORTED in plan


def test_overflow_is_what_it_is_without_the_order(session: SparkSession) -> None:
    """An error with ANSI mode, without it the number that wraps around, and NULL for decimals."""
    statement = "SELECT k, sum(n + 9223372036854775000) AS s FROM single GROUP BY k"
    session.conf.set("spark.sql.ansi.enabled", "false")
    plan, found, expected = both_answers(session, statement)
    assert found == expected and SORTED in plan
    session.conf.set("spark.sql.ansi.enabled", "true")
    for trusted in ("true", "false"):
        session.conf.set(TRUST, trusted)
        with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
            session.sql(statement).collect()


def test_verdicts_see_the_aggregate(session: SparkSession) -> None:
    """A group-by in one phase is reported once, colocated, under the name of Spark's operator."""
    rows = session.sql(f"SELECT word, sum(n) AS s FROM single WHERE k IN {IN_GROUPS} GROUP BY word")
    rows.collect()
    found = explain_json(rows)
    assert [(group["operator"], group["colocate"]) for group in found["aggregates"]] == [
        ("HashAggregate", False),
        ("SortAggregate", True),
    ]
    [join] = found["joins"]
    assert join["colocate"] and found["exchanges"] == 0


def test_coalesced_buckets_are_merged(session: SparkSession) -> None:
    """Spark may read two buckets as one for a join with a table of fewer; their files are merged then."""
    session.conf.set("spark.sql.bucketing.coalesceBucketsInJoin.enabled", "true")
    plan, found, expected = both_answers(
        session, "SELECT l.k, count(*) AS c, sum(r.n) AS s FROM single l JOIN halved r ON l.k = r.k GROUP BY l.k")
    assert found == expected and found
    assert "Coalesced to 3" in plan and plan.count("Sort [") == 0 and plan.count(MERGED) == plan.count(IN_ORDER) == 1


LAYERS = {
    "group": "SELECT k, max(v) AS v FROM ({}) GROUP BY k",
    "waiting": "SELECT k, v + count(*) OVER (PARTITION BY k) AS v FROM ({})",
    "running": "SELECT k, v + sum(v) OVER (PARTITION BY k ORDER BY v ROWS UNBOUNDED PRECEDING) AS v FROM ({})",
}


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("layers", [pytest.param(one, id="-".join(one)) for one in itertools.product(LAYERS, repeat=2)])
def test_each_operator_gives_out_its_last_group(session: SparkSession, layers: tuple[str, ...], joined: bool) -> None:
    """Where those below end, each has a row to give out: none overwrites one that was not taken."""
    statement = "SELECT k, n AS v FROM single"
    for layer in ("group", *layers):
        statement = LAYERS[layer].format(statement)
    if joined:
        statement = f"SELECT a.k, a.v, b.n FROM ({statement}) a JOIN single b ON a.k = b.k"
    plan, ours, expected = both_answers(session, statement)
    assert plan.count(SORTED) + plan.count("SortedWindow") >= len(layers), plan
    assert ours == expected
