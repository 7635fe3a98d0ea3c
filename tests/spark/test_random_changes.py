"""Random UPDATE, DELETE, MERGE and INSERT … SELECT: after each, rows and counts are DuckDB's.

``SEEDS=47,100-120 pytest tests/spark/test_random_changes.py`` runs others.
"""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.connect.functions import expr as connect_expr

from tests.spark.change_story import VIOLATION, Frames, Groups, Story
from tests.spark.cluster_tables import CATALOG, STABLE, UNSTABLE, ClusterTables
from tests.spark.conftest import MAP
from tests.spark.sql_clients import Client, ConnectClient, Row, Servers, SqlError

pytestmark = pytest.mark.spark

NAMESPACE = "random-changes"
IN = f"{CATALOG}.`{NAMESPACE}`"
STATEMENTS = int(os.environ.get("STATEMENTS", "8"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
SESSIONS_SEED = int(os.environ.get("SESSIONS_SEED", "1001"))
CONFS = {
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.autoBroadcastJoinThreshold": ("-1", "10MB"),
    "spark.colocation.writeInPlace": ("true", "true", "true", "false"),
    "spark.sql.codegen.wholeStage": ("true", "true", "false"),
    "spark.sql.join.preferSortMergeJoin": ("true", "true", "false"),
    "spark.sql.ansi.enabled": ("true", "true", "false"),
    "spark.colocation.write.targetFileSize": ("256m", "256m", "1"),
}


FIRST_OF = {"thrift": 10_000, "connect": 20_000, "more": 30_000, "fewer": 40_000}
UNEQUAL = {"more": {"t": 32, "s": 8, "o": 16}, "fewer": {"t": 8, "s": 32, "o": 8}}
IS_GIVEN = "SEEDS" in os.environ


def seeds() -> list[int]:
    ranges = (one.partition("-") for one in os.environ.get("SEEDS", "1-2").split(","))
    return [seed for first, _, last in ranges for seed in range(int(first), int(last or first) + 1)]


def unless_deep(*values: object, is_deep: bool) -> Any:
    """One story of each kind is not deep: together these have every value of CONFS."""
    return pytest.param(*values, marks=[pytest.mark.deep] if is_deep and not IS_GIVEN else [])


class Session:
    """A session as a client of the stories."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def run(self, statement: str) -> list[Row]:
        try:
            rows = self.session.sql(statement).collect()
        except Exception as error:
            raise SqlError(str(error)) from error
        return [tuple(None if value is None else str(value) for value in row) for row in rows]

    def close(self) -> None:
        """It has nothing to close."""


def groups_of(tables: ClusterTables, buckets: int) -> Groups:
    """Two groups for each list of types."""
    made: set[str] = set()

    def group(types: list[str], other: bool) -> str:
        kinds = ("".join(filter(str.isalnum, kind.lower())) for kind in types)
        name = "-".join(["other" if other else "own", *kinds, str(buckets)])
        if name not in made:
            made.add(name)
            tables.add_group(name, [kind.lower() for kind in types], (*MAP, *MAP)[:buckets])
        return name

    return group


@pytest.fixture(scope="module")
def groups(tables: ClusterTables) -> Groups:
    return groups_of(tables, len(MAP))


@pytest.fixture(scope="module")
def groups_of_eight(tables: ClusterTables) -> Groups:
    return groups_of(tables, 8)


def choose_settings(seed: int, client: Client) -> None:
    chosen = random.Random(seed)
    for name, values in CONFS.items():
        client.run(f"SET {name} = {chosen.choice(values)}")


@pytest.mark.parametrize("seed", [unless_deep(seed, is_deep=seed != 1) for seed in seeds()])
def test_rows_are_as_in_duckdb(seed: int, application: SparkSession, tables: ClusterTables, groups: Groups) -> None:
    """Every fourth story in a group that is not stable."""
    session = tables.configure(application.newSession())
    client = Session(session)
    choose_settings(seed, client)
    story = Story(seed, client, IN, groups, Frames(session, F.expr))
    group = groups([key.type for key in story.layout.keys], False)
    if seed % 4 == 0:
        tables.change("cg", group, **UNSTABLE)
    try:
        story.run(STATEMENTS)
    finally:
        tables.change("cg", group, **STABLE)
    assert not story.differences, "\n".join(story.differences)


@pytest.mark.parametrize(("target", "seed"), [
    unless_deep(target, seed, is_deep=(target, seed) not in (("more", 1), ("fewer", 2)))
    for target in UNEQUAL for seed in seeds()
])  # fmt: skip
def test_rows_of_unequal_buckets_are_as_in_duckdb(
    target: str, seed: int, application: SparkSession, tables: ClusterTables, groups_of_eight: Groups
) -> None:
    """The target has more buckets than the tables it is changed by, or fewer; joins are cut into ranges of the key."""
    session = tables.configure(application.newSession())
    client = Session(session)
    number = seed + FIRST_OF[target]
    choose_settings(number, client)
    client.run(f"SET spark.colocation.minPartitionNum = {random.Random(number).choice((1, 4, 100))}")
    client.run("SET spark.colocation.minPartitionBytes = 1")
    story = Story(number, client, IN, groups_of_eight, Frames(session, F.expr), UNEQUAL[target])
    story.run(STATEMENTS)
    assert not story.differences, "\n".join(story.differences)


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds())
@pytest.mark.parametrize("way", ["thrift", "connect"])
def test_rows_of_clients_are_as_in_duckdb(way: str, seed: int, servers: Servers, groups: Groups) -> None:
    """The same by other clients, Connect also by its DataFrames."""
    with closing(servers.thrift() if way == "thrift" else servers.connect()) as client:
        choose_settings(seed, client)
        frames = Frames(client.session, connect_expr) if isinstance(client, ConnectClient) else None
        story = Story(seed + FIRST_OF[way], client, IN, groups, frames)
        story.run(STATEMENTS)
    assert not story.differences, "\n".join(story.differences)


def test_sessions_at_once(application: SparkSession, tables: ClusterTables, groups: Groups) -> None:
    """Every statement commits or gets LoadConflict; the rows are those of the commits, one after the other. Compactions
    run at the same time.
    """
    first = Session(tables.configure(application.newSession()))
    story = Story(SESSIONS_SEED, first, IN, groups)
    compacting, *sessions = [first, *(Session(tables.configure(application.newSession())) for _ in range(3))]
    for _ in range(ROUNDS):
        at_once = [story.committing() for _ in sessions]
        with ThreadPoolExecutor(len(sessions) + 1) as threads:
            compaction = threads.submit(story.outcome, compacting, story.compaction)
            outcomes = list(threads.map(story.outcome, sessions, at_once))
        compacted = compaction.result()
        assert not isinstance(compacted, str) or "LoadConflict" in compacted, compacted
        refused = [outcome for outcome in outcomes if isinstance(outcome, str)]
        assert all("LoadConflict" in error or VIOLATION in error for error in refused), (at_once, refused)
        committed = [(int(outcome[-1] or 0), statement) for outcome, statement in zip(outcomes, at_once, strict=True)
                     if not isinstance(outcome, str) and outcome[0] != "0"]  # fmt: skip
        for _, statement in sorted(committed, key=lambda one: one[0]):
            _, error = story.expected(statement)
            assert not error, (statement, error)
        for statement in at_once:
            story.compare(statement)
        assert story.differences == [], committed
