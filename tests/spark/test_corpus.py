"""Many queries, each with the group stable, unstable, and unstable but read bucket by bucket: DuckDB's answers, and
verdicts that the executed plan deserves."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession

from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus, UnstableBucket
from colocation.model.table import ColocatedTableSpec, Column
from colocation.spark import explain_json
from tests.spark.catalog_server import show
from tests.spark.conftest import BUCKETS, MAP, add_table, stable_group
from tests.spark.corpus import CASES, CHOSEN, CHOSEN_UNSTABLE, Case, Verdicts
from tests.spark.loopback import LoopbackAgents
from tests.spark.test_joins import LINES, ORDERS
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

EVENTS = "SELECT id % 90 AS e_user, CONCAT('kind ', id % 4) AS e_kind FROM range(200)"
PAIRS = "SELECT if(id % 9 = 0, NULL, id % 40) AS a1, CAST(id % 3 AS STRING) AS a2, id AS av FROM range(150)"
MARKS = "SELECT id % 50 AS b1, if(id % 8 = 0, NULL, CAST(id % 3 AS STRING)) AS b2, id AS bv FROM range(120)"
PLAIN = "SELECT id AS p_key, CONCAT('p', id) AS p_text FROM range(0, 400, 3)"
HERE = "SELECT id * 7 AS h_key, CONCAT('h', id) AS h_text FROM range(30)"
TABLES: dict[str, tuple[str, list[str], tuple[str, ...], str]] = {
    "orders": (ORDERS, ["o_key"], ("o_part",), "sales"),
    "lines": (LINES, ["l_key"], (), "sales"),
    "events": (EVENTS, ["e_user"], (), "audience"),
    "pairs": (PAIRS, ["a1", "a2"], (), "paired"),
    "marks": (MARKS, ["b1", "b2"], (), "paired"),
}
"""Name -> rows, bucketed by, partitioned by, group; next to them an empty one, ``nothing``."""
UNSTABLE = {
    "stable": False,
    "reason": "NodeNotReady",
    "unstable_buckets": (UnstableBucket(bucket=3, reason="NodeNotReady", message="node-2 is not ready"),),
    "unstable_bucket_count": 1,
}
STATES = {
    "stable": ({}, "shuffle"), "unstable": (UNSTABLE, "shuffle"), "unstable-colocated": (UNSTABLE, "live"),
}


UNSTABLE_STATES = ("unstable", "unstable-colocated")


@dataclass(frozen=True)
class Corpus:
    """The loaded tables, where the plain one is, and the same rows in DuckDB."""

    catalog: FakeCatalog
    plain: Path
    database: duckdb.DuckDBPyConnection


@pytest.fixture(scope="module")
def corpus(
    application: SparkSession, agents: LoopbackAgents, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Corpus]:
    catalog = stable_group(agents)
    status = catalog.groups["sales"].status
    catalog.add_group(ColocationGroupSpec(bucket_key=("bigint",), buckets=BUCKETS, replicas=2), status, "audience")
    composite = ColocationGroupSpec(bucket_key=("bigint", "string"), buckets=4, replicas=2)
    catalog.add_group(composite, ColocationGroupStatus(stable=True, backends_per_bucket_seq=MAP[1:5]), "paired")
    with duckdb.connect() as database:
        for name, (statement, key, partitions, group) in TABLES.items():
            rows = application.sql(statement)
            add_table(catalog, name, rows, key, partitions, group)
            database.register(name, rows.toArrow())
        columns = (Column(name="n_key", type="bigint"),)
        catalog.add_table(
            "nothing", ColocatedTableSpec(colocate_with="sales", columns=columns, bucketed_by=("n_key",)), "0" * 36
        )
        database.execute("CREATE TABLE nothing (n_key BIGINT)")
        plain = tmp_path_factory.mktemp("plain")
        application.sql(PLAIN).write.mode("overwrite").parquet(str(plain))
        database.register("plain", application.sql(PLAIN).toArrow())
        database.register("here", application.sql(HERE).toArrow())
        yield Corpus(catalog, plain, database)


@pytest.fixture(
    scope="module",
    params=["stable", *(pytest.param(state, marks=pytest.mark.deep) for state in UNSTABLE_STATES)],
)
def state(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def session(application: SparkSession, corpus: Corpus, state: str) -> SparkSession:
    """A session that sees all groups in one state."""
    status, when_unstable = STATES[state]
    catalog = corpus.catalog.copy()
    for name, group in corpus.catalog.groups.items():
        catalog.add_group(group.spec, group.status.model_copy(update=status), name)
    session = application.newSession()
    session.conf.set("spark.colocation.whenUnstable", when_unstable)
    show(session, catalog)
    session.catalog.setCurrentDatabase("shop")
    session.read.parquet(str(corpus.plain)).createTempView("plain")
    here = session.sql(HERE)
    session.createDataFrame(here.collect(), here.schema).createTempView("here")
    return session


def in_duckdb(statement: str) -> str:
    for word in ("SEMI", "ANTI"):
        statement = statement.replace(f"LEFT {word}", word)
    return statement


def sorted_rows(rows: list[Any]) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in rows), key=repr)


def executed_plan(query: DataFrame) -> str:
    return str(query._jdf.queryExecution().executedPlan().toString()).partition("== Initial Plan ==")[0]


def assert_verdicts(what: str, operators: list[dict[str, Any]], expected: Verdicts, state: str) -> None:
    """As the case expects, or, where it expects true and buckets are not shown to Spark, the state of the group."""
    for operator in operators:
        assert operator["colocate"] == (operator["reason"] == "")
        if state == "unstable":
            assert not operator["colocate"]
        if operator["colocate"]:
            assert bool(operator["note"]) == (state == "unstable-colocated")
    if expected is None:
        return
    assert len(operators) == len(expected), f"{what}: {operators}"
    for operator, verdict in zip(operators, expected, strict=True):
        if verdict is not True:
            degraded = state == "unstable" and "group is not stable" in operator["reason"]
            assert degraded or operator["reason"].startswith(str(verdict)), operator
        elif state == "unstable":
            assert "group is not stable: NodeNotReady; bucket 3 NodeNotReady" in operator["reason"]
        else:
            assert operator["colocate"], operator


@pytest.mark.parametrize("case", [
    pytest.param(case, id=case.name, marks=() if case.name in CHOSEN else pytest.mark.deep) for case in CASES
])  # fmt: skip
def test_answers_and_verdicts(case: Case, session: SparkSession, corpus: Corpus, state: str) -> None:
    """The answer never depends on the group's state, and no verdict claims more than the executed plan shows."""
    check(case, session, corpus, state)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if case.name in CHOSEN_UNSTABLE])
@pytest.mark.parametrize("state", UNSTABLE_STATES, indirect=True)
def test_the_state_of_the_group_is_reported(case: Case, session: SparkSession, corpus: Corpus, state: str) -> None:
    """What `make test` takes of the cases while groups are not stable."""
    check(case, session, corpus, state)


def check(case: Case, session: SparkSession, corpus: Corpus, state: str) -> None:
    """Rows as DuckDB has them, verdicts as the case expects."""
    query = session.sql(case.statement)
    rows = query.collect()
    assert sorted_rows(rows) == sorted_rows(corpus.database.execute(in_duckdb(case.statement)).fetchall())
    explained = explain_json(query)
    assert explained["final"]
    for what, expected in (("joins", case.joins), ("aggregates", case.aggregates), ("windows", case.windows)):
        assert_verdicts(what, explained[what], expected, state)
    operators = [*explained["joins"], *explained["aggregates"], *explained["windows"]]
    if operators and all(operator["colocate"] for operator in operators):
        assert explained["exchanges"] == 0
        assert "hashpartitioning" not in executed_plan(query)
