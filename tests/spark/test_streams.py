"""Streams: each micro-batch reads the newest commits of the tables that it joins."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from colocation.spark import explain_json
from tests.spark.cluster_tables import CATALOG, STABLE, UNSTABLE, WHY_UNSTABLE, ClusterTables, make_table
from tests.spark.loopback import LoopbackAgents

pytestmark = pytest.mark.spark

NAMESPACE = "streams"
IN = f"{CATALOG}.{NAMESPACE}"


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> SparkSession:
    return tables.configure(application.newSession())


Batch = Callable[[DataFrame], DataFrame]


class Feed:
    """A folder of files whose keys a stream reads, and the rows that its micro-batches gave."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session = session
        self.folder = folder / "feed"
        self.checkpoint = folder / "at"
        self.rows: list[tuple[Any, ...]] = []
        self.folder.mkdir()
        self.stream = session.readStream.schema("k BIGINT").parquet(str(self.folder))

    @contextmanager
    def running(self, query: DataFrame, batch: Batch = lambda rows: rows) -> Iterator[StreamingQuery]:
        """The query as a stream that collects rows."""

        def collect(rows: DataFrame, _: int) -> None:
            self.rows += [tuple(row) for row in batch(rows).collect()]

        writer = query.writeStream.foreachBatch(collect).option("checkpointLocation", str(self.checkpoint))
        running = writer.start()
        try:
            yield running
        finally:
            running.stop()

    def give(self, running: StreamingQuery, *keys: int) -> list[tuple[Any, ...]]:
        """The rows of a micro-batch of these keys, sorted."""
        self.rows.clear()
        rows = self.session.createDataFrame([(key,) for key in keys], "k BIGINT").coalesce(1)
        rows.write.mode("append").parquet(str(self.folder))
        running.processAllAvailable()
        return sorted(self.rows)


@pytest.fixture
def feed(session: SparkSession, tmp_path: Path) -> Feed:
    return Feed(session, tmp_path)


def forget_replaced(agents: LoopbackAgents, tables: ClusterTables, name: str) -> None:
    """What retention does in the end: only the newest snapshot's files stay."""
    table = tables.get(name)
    kept = table["status"]["snapshot"]["manifest"].removeprefix("sha256:")
    for root in agents.roots.values():
        for manifest in root.glob(f"{NAMESPACE}/{name}-*/manifests/*.json.zst"):
            if not manifest.name.startswith(kept):
                manifest.unlink()


def test_each_micro_batch_joins_the_newest_rows(feed: Feed, session: SparkSession) -> None:
    """Appends, overwrites and new columns, the same for all reads of a batch; named snapshots and cached rows stay."""
    dim = make_table(session, f"{IN}.dim")
    session.sql(f"INSERT INTO {dim} VALUES (1, 10)")
    session.table(dim).createOrReplaceTempView("dim_view")
    newest = session.table(dim).withColumnRenamed("v", "newest")
    viewed = session.table("dim_view").groupBy("k").sum("v").toDF("k", "viewed")
    pinned = session.sql(f"SELECT k, v AS pinned FROM {dim} VERSION AS OF 1")
    cached = session.table(dim).selectExpr("k", "v + 0 AS cached").cache()
    assert cached.count() == 1
    joined = feed.stream.join(newest, "k", "left").join(viewed, "k", "left")
    with feed.running(joined.join(pinned, "k", "left").join(cached, "k", "left")) as running:
        assert feed.give(running, 1, 2) == [(1, 10, 10, 10, 10), (2, None, None, None, None)]
        session.sql(f"INSERT INTO {dim} VALUES (2, 20)")
        assert feed.give(running, 1, 2) == [(1, 10, 10, 10, 10), (2, 20, 20, None, None)]
        session.sql(f"INSERT OVERWRITE {dim} VALUES (1, 11), (3, 30)")
        assert feed.give(running, 1, 2) == [(1, 11, 11, 10, 10), (2, None, None, None, None)]
        session.sql(f"ALTER TABLE {dim} ADD COLUMNS (note STRING)")
        session.sql(f"ALTER TABLE {dim} RENAME COLUMN v TO w")
        session.sql(f"INSERT INTO {dim} VALUES (4, 40, 'new')")
        assert feed.give(running, 4) == [(4, 40, 40, None, None)]
    cached.unpersist()


def test_retention_does_not_end_a_stream(
    feed: Feed, session: SparkSession, tables: ClusterTables, agents: LoopbackAgents
) -> None:
    """The snapshots with which the stream began are gone: its plan's, and that of a DataFrame in foreachBatch."""
    dim = make_table(session, f"{IN}.forgotten")
    session.sql(f"INSERT INTO {dim} VALUES (1, 10)")
    made_before = session.table(dim).withColumnRenamed("v", "again")
    joined = feed.stream.join(session.table(dim), "k")
    with feed.running(joined, lambda rows: rows.join(made_before, "k")) as running:
        assert feed.give(running, 1) == [(1, 10, 10)]
        session.sql(f"INSERT OVERWRITE {dim} VALUES (1, 11)")
        forget_replaced(agents, tables, "forgotten")
        assert feed.give(running, 1) == [(1, 11, 11)]


def test_each_micro_batch_has_the_verdict_of_its_moment(
    feed: Feed, session: SparkSession, tables: ClusterTables
) -> None:
    """The group's state when the stream began decides nothing later."""
    dim = make_table(session, f"{IN}.judged")
    session.sql(f"INSERT INTO {dim} VALUES (1, 10)")
    session.conf.set("spark.colocation.whenUnstable", "shuffle")
    joined = session.table(dim).join(session.table(dim).withColumnRenamed("v", "other"), "k")
    verdicts = []

    def judged(rows: DataFrame) -> DataFrame:
        verdicts.append([(join["colocate"], join["reason"]) for join in explain_json(joined.select("k"))["joins"]])
        return rows

    with feed.running(feed.stream, judged) as running:
        feed.give(running, 1)
        tables.change("cg", "sales", **UNSTABLE)
        feed.give(running, 2)
        tables.change("cg", "sales", **STABLE)
        feed.give(running, 3)
    assert verdicts == [[(True, "")], [(False, WHY_UNSTABLE)], [(True, "")]]


@pytest.mark.parametrize(
    ("statements", "error"),
    [
        pytest.param("DROP TABLE {t}", "was dropped since the stream began", id="dropped"),
        pytest.param("DROP TABLE {t}; CREATE TABLE {t} (k BIGINT, v BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS "
                     "TBLPROPERTIES ('colocate_with'='sales')",
                     "was dropped and recreated since the stream began; start the stream again", id="another"),
        pytest.param("CREATE OR REPLACE TABLE {t} CLUSTERED BY (k) INTO 6 BUCKETS "
                     "TBLPROPERTIES ('colocate_with'='sales') AS SELECT 1L AS k, 2L AS w",
                     "column v BIGINT is no longer there; start the stream again", id="replaced"),
    ],
)  # fmt: skip
def test_what_ends_a_stream(statements: str, error: str, feed: Feed, session: SparkSession) -> None:
    """Tables that are no longer what the stream was analyzed with: the error states it."""
    dim = make_table(session, f"{IN}.changed")
    session.sql(f"INSERT INTO {dim} VALUES (1, 10)")
    with feed.running(feed.stream.join(session.table(dim), "k")) as running:
        assert feed.give(running, 1) == [(1, 10)]
        for statement in statements.format(t=dim).split("; "):
            session.sql(statement)
        with pytest.raises(StreamingQueryException, match=error):
            feed.give(running, 1)
    session.sql(f"DROP TABLE IF EXISTS {dim}")
