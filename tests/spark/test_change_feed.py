"""The rows that commits changed, by option ``readChangeFeed`` of every Spark: files are replaced, rows are compared."""

from collections import Counter
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from colocation.spark import compact
from tests.spark.cluster_tables import CATALOG, ClusterTables, make_table

pytestmark = pytest.mark.spark

NAMESPACE = "feed"
IN = f"{CATALOG}.{NAMESPACE}"


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> SparkSession:
    return tables.configure(application.newSession())


@pytest.fixture
def table(session: SparkSession, request: pytest.FixtureRequest) -> str:
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    name = f"{IN}.t{abs(hash(request.node.name)) % 10**9}"
    return make_table(session, name, "k BIGINT, v STRING, p INT", "PARTITIONED BY (p)")


def feed(session: SparkSession, table: str, begin: int = 1, **options: object) -> DataFrame:
    reader = session.read.option("readChangeFeed", "true").option("startingVersion", begin)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.table(table)


def shown(changes: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    rows = changes.select("_commit_version", "_change_type", *(columns or ("k", "v"))).collect()
    return sorted((tuple(row) for row in rows), key=repr)


def test_only_rows_that_differ_are_changes(session: SparkSession, table: str) -> None:
    """A row that both sides have, also NULL, is carried over as often; a compaction changes none."""
    session.sql(f"INSERT INTO {table} VALUES (1, 'a', 0), (1, 'a', 0), (2, NULL, 0), (NULL, 'n', 0), (9, 'z', 1)")
    session.sql(f"INSERT OVERWRITE {table} VALUES (1, 'a', 0), (2, 'b', 0), (NULL, 'n', 0), (NULL, 'n', 0)")
    compact(session, table.rpartition(".")[2], namespace=NAMESPACE, catalog=CATALOG)
    session.sql(f"DELETE FROM {table} WHERE p = 1")
    by_key = {"computeUpdates": "false"}
    assert shown(feed(session, table, 2, **by_key)) == [
        (2, "delete", 1, "a"), (2, "delete", 2, None), (2, "insert", 2, "b"), (2, "insert", None, "n"),
        (session.table(f"{table}.snapshots").count(), "delete", 9, "z"),
    ]  # fmt: skip
    assert shown(feed(session, table, 2, endingVersion=2)) == [
        (2, "delete", 1, "a"), (2, "insert", None, "n"),
        (2, "update_postimage", 2, "b"), (2, "update_preimage", 2, None),
    ]  # fmt: skip
    carried = feed(session, table, 2, endingVersion=2, deduplicationMode="none")
    assert Counter(row[:2] for row in shown(carried)) == {(2, "delete"): 4, (2, "insert"): 4}


def test_a_feed_knows_its_files(session: SparkSession, table: str) -> None:
    """By their bytes Spark decides which side of a join it broadcasts."""
    for key in (1, 2, 3):
        session.sql(f"INSERT INTO {table} VALUES ({key}, 'a', {key})")
    files = {Path(row["path"]).name: row["bytes"] for row in session.table(f"{table}.files").collect()}
    changes = feed(session, table, computeUpdates="false", deduplicationMode="none")
    assert {Path(one).name for one in changes.inputFiles()} == files.keys()
    assert changes._jdf.queryExecution().optimizedPlan().stats().sizeInBytes() >= sum(files.values())


def test_rows_of_updates_are_pairs(session: SparkSession, table: str) -> None:
    """Also when the key changes, so that they are in other buckets; those of a MERGE are pairs by their keys."""
    session.sql(f"INSERT INTO {table} VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 1), (4, NULL, 1)")
    session.sql(f"UPDATE {table} SET v = upper(v), k = if(k = 2, 7, k) WHERE p = 0")
    assert shown(feed(session, table, 2)) == [
        (2, "update_postimage", 1, "A"), (2, "update_postimage", 7, "b".upper()),
        (2, "update_preimage", 1, "a"), (2, "update_preimage", 2, "b"),
    ]  # fmt: skip
    session.sql(f"""MERGE INTO {table} t USING (
            SELECT * FROM VALUES (1, 'x', 1), (3, 'y', 1), (4, 'z', 1), (9, 'n', 0) AS v(k, v, p)) s
        ON t.k = s.k WHEN MATCHED AND s.k = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *""")
    assert shown(feed(session, table, 3), "k", "v", "p") == [
        (3, "delete", 3, "c", 1), (3, "insert", 9, "n", 0),
        (3, "update_postimage", 1, "x", 1), (3, "update_postimage", 4, "z", 1),
        (3, "update_preimage", 1, "A", 0), (3, "update_preimage", 4, None, 1),
    ]  # fmt: skip
    session.sql(f"DELETE FROM {table} WHERE v IN ('x', 'n')")
    assert shown(feed(session, table, 4)) == [(4, "delete", 1, "x"), (4, "delete", 9, "n")]
    each = [shown(feed(session, table, version, endingVersion=version)) for version in (2, 3, 4)]
    assert shown(feed(session, table, 2)) == list(chain(*each)), "a range has the changes of its commits"
    counts = session.sql(
        f"SELECT operation, rows_inserted, rows_updated, rows_deleted FROM {table}.snapshots ORDER BY snapshot_id"
    )
    assert [tuple(row) for row in counts.collect()] == [
        ("append", 4, 0, 0), ("update", 0, 2, 0), ("merge", 1, 2, 1), ("delete", 0, 0, 2)
    ]  # fmt: skip


def test_net_changes(session: SparkSession, table: str) -> None:
    """What came and went within the range is none of them."""
    session.sql(f"INSERT INTO {table} VALUES (1, 'a', 0), (2, 'b', 0)")
    session.sql(f"INSERT INTO {table} VALUES (3, 'c', 0), (4, 'd', 1)")
    session.sql(f"INSERT OVERWRITE {table} VALUES (1, 'a', 0), (2, 'B', 0)")
    session.sql(f"INSERT INTO {table} VALUES (5, 'e', 2)")
    net = {"deduplicationMode": "netChanges", "computeUpdates": "false"}
    assert shown(feed(session, table, 2, **net)) == [
        (2, "insert", 4, "d"), (3, "delete", 2, "b"), (3, "insert", 2, "B"), (4, "insert", 5, "e"),
    ]  # fmt: skip
    assert shown(feed(session, table, 0, **net), "k") == [
        (2, "insert", 4), (3, "insert", 1), (3, "insert", 2), (4, "insert", 5)
    ]  # fmt: skip
    session.sql(f"CALL {CATALOG}.system.roll_back(table => '{table.partition('.')[2]}', snapshot_id => 1)")
    assert shown(feed(session, table, 2, **net)) == []


def test_net_changes_of_a_key_are_pairs(session: SparkSession, table: str) -> None:
    """Over several commits; a row whose key changed came under one key and went under another."""
    session.sql(f"INSERT INTO {table} VALUES (1, 'a', 0), (2, 'b', 0)")
    for change in ("v = 'A' WHERE k = 1", "v = 'x' WHERE k = 1", "k = 7 WHERE k = 2"):
        session.sql(f"UPDATE {table} SET {change}")
    assert shown(feed(session, table, 2, deduplicationMode="netChanges")) == [
        (2, "update_preimage", 1, "a"), (3, "update_postimage", 1, "x"), (4, "delete", 2, "b"), (4, "insert", 7, "b")
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_changes_lead_from_each_snapshot_to_the_next(session: SparkSession, table: str, seed: int) -> None:
    """A random story of appends, overwrites, updates, deletions, compactions and roll-backs."""
    random = Random(seed)

    def row() -> str:
        key, value = random.choice(["NULL", "1", "2", "3"]), random.choice(["NULL", "'x'", "'y'"])
        return f"({key}, {value}, {random.randrange(3)})"

    def values() -> str:
        return ", ".join(row() for _ in range(random.randrange(1, 6)))

    name = table.partition(".")[2]
    session.sql(f"INSERT INTO {table} VALUES {values()}")
    for _ in range(9):
        random.choice([
            lambda: session.sql(f"INSERT INTO {table} VALUES {values()}"),
            lambda: session.sql(f"INSERT OVERWRITE {table} VALUES {values()}"),
            lambda: session.sql(
                f"INSERT OVERWRITE {table} SELECT k, v, p FROM {table} WHERE p = {random.randrange(3)} LIMIT 2"
            ),
            lambda: session.sql(f"DELETE FROM {table} WHERE p = {random.randrange(3)}"),
            lambda: session.sql(f"DELETE FROM {table} WHERE k = {random.randrange(1, 4)} AND v = 'x'"),
            lambda: session.sql(f"UPDATE {table} SET v = 'x', p = k WHERE k <= {random.randrange(1, 4)}"),
            lambda: session.sql(f"UPDATE {table} SET k = k + 1 WHERE v IS NULL"),
            lambda: compact(session, name.partition(".")[2], namespace=NAMESPACE, catalog=CATALOG),
            lambda: session.sql(f"CALL {CATALOG}.system.roll_back(table => '{name}', snapshot_id => 1)"),
        ])()  # fmt: skip
    newest = session.sql(f"SELECT max(snapshot_id) FROM {table}.snapshots").collect()[0][0]
    state = {0: Counter[Any]()}
    for version in range(1, newest + 1):
        state[version] = Counter(map(tuple, session.sql(f"SELECT * FROM {table} VERSION AS OF {version}").collect()))
    changed: dict[int, Counter[Any]] = {version: Counter() for version in state}
    for row in feed(session, table, computeUpdates="true").collect():
        sign = 1 if row["_change_type"] in ("insert", "update_postimage") else -1
        changed[row["_commit_version"]][tuple(row)[:3]] += sign
    for version in range(1, newest + 1):
        wanted = Counter(state[version])
        wanted.subtract(state[version - 1])
        assert {k: n for k, n in changed[version].items() if n} == {k: n for k, n in wanted.items() if n}, version
    net = Counter[Any]()
    for row in feed(session, table, 2, deduplicationMode="netChanges").collect():
        net[tuple(row)[:3]] += 1 if row["_change_type"] in ("insert", "update_postimage") else -1
    wanted = Counter(state[newest])
    wanted.subtract(state[1])
    assert net == Counter({k: n for k, n in wanted.items() if n})


def test_comparing_needs_no_shuffle(session: SparkSession, table: str) -> None:
    """Replaced and new files are bucketed alike; so are the changes, when they are joined."""
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    session.sql(f"INSERT INTO {table} SELECT id, 'a', 0 FROM range(50)")
    session.sql(f"INSERT OVERWRITE {table} SELECT id, if(id = 7, 'b', 'a'), 0 FROM range(50)")
    for updates in ("false", "true"):
        changes = feed(session, table, 2, computeUpdates=updates)
        joined = changes.join(session.table(table), "k")
        assert joined.count() == 2
        for rows in (changes, joined):
            rows.collect()
            plan = rows._jdf.queryExecution().executedPlan().toString()
            assert "Exchange" not in plan, plan
    only = feed(session, table, 1).where("_commit_version = 1")
    assert only.count() == 50


def test_tables_that_were_replaced(session: SparkSession, table: str) -> None:
    """Other buckets or another order of rows are compared all the same; other partitions are not."""
    name = f"{IN}.replaced"
    make_table(session, name)
    session.sql(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    session.sql(f"CREATE OR REPLACE TABLE {name} CLUSTERED BY (k) SORTED BY (k, v) INTO 6 BUCKETS "
                f"TBLPROPERTIES ('colocate_with'='sales') AS SELECT k, v + k - 1 AS v FROM {name}")  # fmt: skip
    assert shown(feed(session, name, 2, computeUpdates="false")) == [(2, "delete", 2, 2), (2, "insert", 2, 3)]
    session.sql(f"CREATE OR REPLACE TABLE {name} PARTITIONED BY (v) CLUSTERED BY (k) INTO 6 BUCKETS "
                f"TBLPROPERTIES ('colocate_with'='sales') AS SELECT k, v FROM {name}")  # fmt: skip
    with pytest.raises(AnalysisException, match=r"partitioned by \[\] and is by \[v\]. Read the ranges before and"):
        feed(session, name, 2)
    assert len(shown(feed(session, name, 1, endingVersion=2, computeUpdates="false"))) == 4


@pytest.mark.parametrize(("options", "error"), [
    ({"computeUpdates": "true", "deduplicationMode": "none"}, "allowed: dropCarryovers, netChanges"),
    ({"deduplicationMode": "some"}, "deduplicationMode='some'; allowed: none, dropCarryovers, netChanges"),
    ({"computeUpdates": "maybe"}, "computeUpdates='maybe'; allowed: true, false"),
    ({"startingTimestamp": "2020-01-01"}, "startingVersion and startingTimestamp; allowed: one of them"),
    ({"endingTimestamp": "soon"}, "endingTimestamp='soon'; allowed: a time"),
    ({"versionAsOf": "1"}, "'versionAsOf' is not taken by a read of CHANGES"),
])  # fmt: skip
def test_options_that_are_refused(session: SparkSession, table: str, options: dict[str, str], error: str) -> None:
    session.sql(f"INSERT INTO {table} VALUES (1, 'a', 0)")
    with pytest.raises(AnalysisException, match=error):
        feed(session, table, 1, **options)


def test_a_feed_names_its_begin(session: SparkSession, table: str) -> None:
    """In SQL, too; an open end is the newest commit."""
    session.sql(f"INSERT INTO {table} VALUES (1, 'a', 0)")
    with pytest.raises(AnalysisException, match="without a begin; allowed: startingVersion=<snapshot_id> or startingT"):
        session.read.option("readChangeFeed", "true").table(table)
    rows = session.sql(f"SELECT k, _change_type FROM {table} WITH ('readChangeFeed'='true', 'startingVersion'='1')")
    assert [tuple(row) for row in rows.collect()] == [(1, "insert")]
