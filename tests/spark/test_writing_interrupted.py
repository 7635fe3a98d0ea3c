"""Writes through the catalog that fail, are overtaken or repeated: a statement's rows are there once, or none is."""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from colocation.agent.authorizer import Access
from tests.spark.cluster_tables import CATALOG, ClusterTables, make_table
from tests.spark.conftest import NODES
from tests.spark.loopback import LoopbackAgents
from tests.spark.standalone import executors_below
from tests.support.waiting import until

pytestmark = pytest.mark.spark

NAMESPACE = "interrupted"
IN = f"{CATALOG}.{NAMESPACE}"
KEY = "spark.colocation.write.idempotencyKey"


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> SparkSession:
    return tables.configure(application.newSession())


def keys(session: SparkSession, start: int, end: int) -> DataFrame:
    return session.range(start, end).selectExpr("id AS k")


def found(session: SparkSession, table: str) -> list[int]:
    return sorted(row["k"] for row in session.table(table).collect())


def test_a_key_commits_once(session: SparkSession, tables: ClusterTables) -> None:
    """Given as an option, or in SQL by the session; the repetition answers well, and computes nothing."""
    table = make_table(session, f"{IN}.keyed", "k BIGINT")
    keys(session, 0, 3).writeTo(table).option("idempotency-key", "day-1").append()
    keys(session, 0, 3).writeTo(table).option("idempotency-key", "day-1").append()
    keys(session, 0, 2).selectExpr("ASSERT_TRUE(k > 9) IS NULL AS no", "k").select("k").writeTo(table).option(
        "idempotency-key", "day-1"
    ).append()
    assert found(session, table) == [0, 1, 2]
    session.conf.set(KEY, "day-2")
    for _ in range(2):
        session.sql(f"INSERT INTO {table} VALUES (7)")
    session.conf.unset(KEY)
    for version in ("1", "2", "2"):
        options = {"idempotency-key": "feed", "idempotency-version": version}
        keys(session, 8, 9).writeTo(table).options(**options).append()
    assert found(session, table) == [0, 1, 2, 7, 8, 8]
    with pytest.raises(Exception, match="idempotency-version='x'; allowed: a whole number"):
        keys(session, 0, 1).writeTo(table).options(**{"idempotency-key": "a", "idempotency-version": "x"}).append()


def test_a_stream_that_ends_between_commit_and_checkpoint(
    session: SparkSession, tables: ClusterTables, tmp_path: Path
) -> None:
    """The epoch is run again after the restart, and is not committed again."""
    table = make_table(session, f"{IN}.streamed", "k BIGINT")
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"

    def run() -> None:
        stream = session.readStream.schema("k BIGINT").parquet(str(source)).writeStream
        query = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).toTable(table)
        query.awaitTermination()

    keys(session, 0, 4).coalesce(1).write.parquet(str(source))
    run()
    keys(session, 4, 6).coalesce(1).write.mode("append").parquet(str(source))
    run()
    assert found(session, table) == list(range(6))
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)
    run()
    keys(session, 6, 7).coalesce(1).write.mode("append").parquet(str(source))
    run()
    assert found(session, table) == list(range(7))


def test_foreach_batch(session: SparkSession, tables: ClusterTables, tmp_path: Path) -> None:
    """Exactly once by a key and a version."""
    table = make_table(session, f"{IN}.batched", "k BIGINT")
    keys(session, 0, 4).write.parquet(str(tmp_path / "source"))

    def write(batch: DataFrame, epoch: int) -> None:
        options = {"idempotency-key": "each", "idempotency-version": str(epoch)}
        for _ in range(2):
            batch.writeTo(table).options(**options).append()

    stream = session.readStream.schema("k BIGINT").parquet(str(tmp_path / "source")).writeStream
    query = stream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True)
    query.start().awaitTermination()
    assert found(session, table) == [0, 1, 2, 3]


def test_a_stream_whose_columns_do_not_fit(session: SparkSession, tables: ClusterTables, tmp_path: Path) -> None:
    """The error names them; nothing is cast without a word."""
    table = make_table(session, f"{IN}.unfit", "k BIGINT")
    session.range(2).selectExpr("CAST(id AS INT) AS k", "'x' AS more").write.parquet(str(tmp_path / "source"))
    stream = session.readStream.schema("k INT, more STRING").parquet(str(tmp_path / "source")).writeStream
    ours = r"column k is int, expected bigint: cast it; column more .* is not in the table"
    with pytest.raises(Exception, match=rf"{ours}|INCOMPATIBLE_DATA_FOR_TABLE|INSERT_COLUMN_ARITY_MISMATCH"):
        query = stream.option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True).toTable(table)
        query.awaitTermination()
    assert found(session, table) == []


@pytest.mark.parametrize("statement", [
    "INSERT INTO {t} SELECT IF(ASSERT_TRUE(id < 50) IS NULL, id, 0) FROM range(100)",
    "INSERT OVERWRITE {t} SELECT IF(ASSERT_TRUE(id < 50) IS NULL, id, 0) FROM range(100)",
    "INSERT INTO {t} SELECT IF(id = 50, NULL, id) FROM range(100)",
])  # fmt: skip
def test_failing_rows(session: SparkSession, tables: ClusterTables, statement: str) -> None:
    """A task that fails, or a NULL where the table takes none: nothing is changed."""
    table = f"{IN}.failing"
    if not session.catalog.tableExists(table):
        make_table(session, f"{IN}.failing", "k BIGINT NOT NULL")
        session.sql(f"INSERT INTO {table} VALUES (1)")
    with pytest.raises(Exception, match=r"is not true|column k holds NULL .* Filter those rows"):
        session.sql(statement.format(t=table))
    assert found(session, table) == [1]


def test_an_agent_is_away(session: SparkSession, tables: ClusterTables, agents: LoopbackAgents) -> None:
    """One: its copies are elsewhere, all rows are there. Two: the error names the nodes that did not take the files."""
    table = make_table(session, f"{IN}.away", "k BIGINT")
    try:
        agents.stop("node-2")
        keys(session, 0, 20).writeTo(table).append()
        assert found(session, table) == list(range(20))
        agents.stop("node-3")
        with pytest.raises(Exception, match="nodes took"):
            keys(session, 20, 40).writeTo(table).append()
    finally:
        agents.start_again("node-2")
        agents.start_if_stopped("node-3")
    tables.plane.kubectl("patch", "configmap", "sales-spark", "-n", NAMESPACE, "--type=merge", "-p",
                         json.dumps({"data": {"agents.json": json.dumps(agents.urls)}}))  # fmt: skip
    assert found(session, table) == list(range(20))


@pytest.mark.parametrize(
    ("mode", "partition", "expected"),
    [
        pytest.param("static", 2, None, id="all-rows"),
        pytest.param("dynamic", 1, None, id="the-same-partition"),
        pytest.param("dynamic", 2, [(2, 2), (3, 2), (11, 1)], id="another-partition"),
    ],
)
def test_overwrites_that_are_overtaken(
    mode: str, partition: int, expected: list[tuple[int, int]] | None, session: SparkSession,
    application: SparkSession, tables: ClusterTables, tmp_path: Path,
) -> None:  # fmt: skip
    """An overwrite replaces what its query has read; of partitions, those that its rows are in."""
    table = f"{IN}.overtaken"
    if not session.catalog.tableExists(table):
        make_table(session, f"{IN}.overtaken", "k BIGINT, p INT", "PARTITIONED BY (p)")
    session.sql(f"INSERT OVERWRITE {table} VALUES (1, 1), (2, 2)")
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"
    os.mkfifo(begun)
    os.mkfifo(go_on)

    def wait(key: int) -> int:
        begun.write_text("now")
        go_on.read_text()
        return key + 10

    session.udf.register("wait", F.udf(wait, "bigint").asNondeterministic())
    session.conf.set("spark.sql.sources.partitionOverwriteMode", mode)
    statement = f"INSERT OVERWRITE {table} SELECT wait(k), p FROM {table} WHERE k = 1"
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(session.sql, statement)
        begun.read_text()
        tables.configure(application.newSession()).sql(f"INSERT INTO {table} VALUES (3, {partition})")
        go_on.write_text("now")
        if expected is None:
            with pytest.raises(Exception, match=r"LoadConflict: table interrupted\.overtaken: .* was overtaken: "):
                slow.result(120)
        else:
            slow.result(120)
    as_before = [(1, 1), (2, 2), (3, partition)]
    assert sorted(tuple(row) for row in session.table(table).collect()) == (expected or as_before)


@contextmanager
def executors_killed_once(agents: LoopbackAgents, session: SparkSession) -> Iterator[dict[int, int]]:
    """All executors are killed when a MERGE sends its first file; no task of the write has ended then.

    Yields how many copies each attempt keeps of its source, by the attempt's RDD.
    """
    java = session.sparkContext._jsc
    assert java is not None
    copies: dict[int, int] = {}

    def watch(access: Access) -> None:
        if access.verb != "create":
            return
        if not copies:
            for pid in executors_below(os.getpid(), session.sparkContext.applicationId):
                os.kill(pid, signal.SIGKILL)
        kept = java.getPersistentRDDs()
        copies[max(kept)] = kept[max(kept)].getStorageLevel().replication()

    agents.on_access = watch
    try:
        yield copies
    finally:
        agents.on_access = lambda access: None
        until(lambda: java.sc().getExecutorMemoryStatus().size() == 1 + len(NODES))


def test_a_lost_source_is_computed_again(session: SparkSession, agents: LoopbackAgents) -> None:
    """The second attempt is the one commit, with its own counts and the statement's key; it keeps two copies."""
    table = make_table(session, f"{IN}.source_lost")
    session.sql(f"INSERT INTO {table} SELECT id * 2, id FROM range(300)")
    session.conf.set(KEY, "upsert-1")
    merge = f"MERGE INTO {table} t USING (SELECT id * 3 AS k, -id AS v FROM range(300)) s ON t.k = s.k "
    merge += "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    with executors_killed_once(agents, session) as copies:
        done = session.sql(merge).collect()[0]
    again = session.sql(merge).collect()[0]
    assert list(copies.values()) == [1, 2]
    assert (done["num_updated_rows"], done["num_inserted_rows"]) == (100, 200)
    assert (again["num_affected_rows"], again["snapshot_id"]) == (0, done["snapshot_id"])
    expected = {key * 2: key for key in range(300)} | {key * 3: -key for key in range(300)}
    assert sorted(map(tuple, session.table(table).collect())) == sorted(expected.items())
    snapshots = session.sql(f"SELECT snapshot_id, rows_updated, rows_inserted FROM {table}.snapshots").collect()
    assert sorted(map(tuple, snapshots)) == [(1, 0, 300), (2, 100, 200)]
