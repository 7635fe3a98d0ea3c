"""Executors without a local replica read from other nodes' agents, as long as one live replica is left."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from colocation.agent.read_requests import ReadRequests
from colocation.model.names import table_directory
from colocation.spark import count_exchanges, read_metrics
from tests.spark.catalog_server import show
from tests.spark.conftest import add_table
from tests.spark.loopback import LoopbackAgents
from tests.spark.standalone import NODE_VARIABLE
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark


@pytest.fixture
def away(spark: SparkSession, catalog: FakeCatalog, agents: LoopbackAgents) -> Iterator[SparkSession]:
    """A session whose executors see no data root; stopped agents are started again in the end."""
    add_table(catalog, "orders", spark.range(600).selectExpr("id AS k", "id AS v"), ["k"])
    spark.conf.set("spark.colocation.dataRoot", "/nowhere")
    show(spark, catalog)
    yield spark
    for node in agents.roots:
        agents.start_if_stopped(node)


JOIN = "SELECT count(*), sum(a.v - b.v) FROM shop.orders a JOIN shop.orders b ON a.k = b.k"


def test_all_reads_are_remote(away: SparkSession) -> None:
    """The plan stays without a shuffle, the answer is right, and the bytes are counted as remote."""
    mark = read_metrics(away)
    query = away.sql(JOIN)
    assert tuple(query.collect()[0]) == (600, 0)
    assert count_exchanges(query) == 0
    read = read_metrics(away, mark)
    assert (read.local_bytes, read.local_files) == (0, 0)
    assert read.remote_bytes > 0


def test_one_live_replica_is_enough(away: SparkSession, agents: LoopbackAgents) -> None:
    """With a node down each of its buckets is read from the other one."""
    agents.stop("node-1")
    assert tuple(away.sql(JOIN).collect()[0]) == (600, 0)


def test_files_that_are_shortened_while_they_are_sent_change_no_answer(
    away: SparkSession, agents: LoopbackAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file of one node loses its half once its agent has allowed to send it: the other replica gives the rest."""
    allowed, shortened = ReadRequests._allowed, set()

    def shortening(requests: ReadRequests, request: object, user: str, known: object, place: str) -> bytes:
        answer = allowed(requests, request, user, known, place)  # type: ignore[arg-type]
        file = requests._node.root.path / known.path  # type: ignore[attr-defined]
        if requests._node.settings.node == "node-1" and "/data/" in str(file) and file not in shortened:
            os.truncate(file, file.stat().st_size // 2)
            shortened.add(file)
        return answer

    monkeypatch.setattr(ReadRequests, "_allowed", shortening)
    for _ in range(3):
        assert tuple(away.sql(JOIN).collect()[0]) == (600, 0)
    assert shortened


@pytest.mark.parametrize("key", ["spark.colocation.tokenFile", "spark.colocation.caFile"])
def test_sessions_do_not_say_whose_credentials_agents_get(away: SparkSession, key: str) -> None:
    """A session of a shared server is refused another file than the application's; Hadoop's name changes nothing."""
    for hadoops in ("fs.coloc.token.file", "fs.coloc.ca.file"):
        away.conf.set(hadoops, "/etc/hostname")
    away.conf.set(key, "/etc/hostname")
    with pytest.raises(AnalysisException) as refused:
        away.sql(JOIN).collect()
    assert f"{key}='/etc/hostname' of this session is not allowed" in str(refused.value)
    away.sql(f"RESET {key}")
    assert tuple(away.sql(JOIN).collect()[0]) == (600, 0)


def test_without_a_replica_the_error_names_what_was_tried(away: SparkSession, agents: LoopbackAgents) -> None:
    """Table, bucket, file and each node's answer stand in the error; no wrong answer is given, whatever the session
    reports of files that are missing.
    """
    for what in ("Corrupt", "Missing"):
        away.conf.set(f"spark.sql.files.ignore{what}Files", "true")
    agents.stop("node-1")
    agents.stop("node-2")
    with pytest.raises((PySparkException, Py4JJavaError)) as failed:
        away.sql("SELECT sum(v) FROM shop.orders").collect()
    for word in ("no replica of table shop.orders-", "bucket ", "node-1 (https://", "node-2 (https://"):
        assert word in str(failed.value)


def test_files_that_executors_do_not_see_come_from_agents(
    spark: SparkSession, catalog: FakeCatalog, agents: LoopbackAgents, tmp_path: Path
) -> None:
    """As those of another namespace: one table is read from disks, the other one not, by the same plan."""
    rows = spark.range(600).selectExpr("id AS k", "id AS v")
    for name in ("seen", "unseen"):
        add_table(catalog, name, rows, ["k"])
    seen = catalog.tables["seen"]
    for node, root in agents.roots.items():
        (tmp_path / node / "shop").mkdir(parents=True)
        folder = table_directory(seen.name, seen.uid)
        (tmp_path / node / "shop" / folder).symlink_to(root / "shop" / folder)
    spark.conf.set("spark.colocation.dataRoot", str(tmp_path / f"${{env.{NODE_VARIABLE}}}"))
    show(spark, catalog)
    mark = read_metrics(spark)
    query = spark.sql("SELECT count(*), sum(a.v - b.v) FROM shop.seen a JOIN shop.unseen b ON a.k = b.k")
    assert tuple(query.collect()[0]) == (600, 0)
    assert count_exchanges(query) == 0
    read = read_metrics(spark, mark)
    assert read.local_bytes > 0 and read.remote_bytes > 0
