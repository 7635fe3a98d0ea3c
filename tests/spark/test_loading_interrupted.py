"""Loads that are killed, overtaken or run at once: the old snapshot stays readable, the rest is garbage that goes."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

from colocation.agentclient import AgentClient, Credentials
from colocation.model.agent import AskedTable, DeletionProof, InventoryRequest, TableReference
from colocation.model.table_manifest import decode_manifest
from tests.spark.catalog_server import load, show
from tests.spark.conftest import add_table
from tests.spark.loading_program import ROWS
from tests.spark.loopback import LoopbackAgents, on_nth_upload
from tests.spark.standalone import executors_below
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark


def keys(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.range(start, end).selectExpr("id AS k")


def count(spark: SparkSession, catalog: FakeCatalog, name: str) -> int:
    show(spark, catalog)
    return spark.table(f"shop.{name}").count()


def data_files(agents: LoopbackAgents, directory: str) -> list[Path]:
    return [path for root in agents.roots.values() for path in root.glob(f"shop/{directory}/data/**/*.parquet")]


def collect_garbage(agents: LoopbackAgents, directory: str, manifest: str) -> int:
    """What the operator orders, without a grace: how many files went."""
    reference = TableReference(namespace="shop", directory=directory, manifest=manifest)
    asked = AskedTable(reference=reference, uid="uid")
    credentials = Credentials(str(agents.trust.token), str(agents.trust.certificate))
    removed = 0
    for url in agents.urls.values():
        with AgentClient(url, credentials) as client:
            report = client.inventory(InventoryRequest(session="test", changed=(asked,)))
            assert report is not None
            proof = DeletionProof(
                instance=report.instance, not_after_seconds=report.uptime_seconds + 60, term=0, table_uid=asked.uid
            )
            removed += client.collect("shop", directory, (manifest,), 0, proof).files
    return removed


@pytest.mark.parametrize("step", ["while-files-are-sent", "at-the-commit"])
def test_a_load_that_fails_at_a_step(
    step: str, spark: SparkSession, catalog: FakeCatalog, agents: LoopbackAgents
) -> None:
    """Whatever the step before the commit: the old rows are read, the load can be run again, garbage goes."""
    add_table(catalog, "stepped", keys(spark, 0, 50), ["k"])
    if step == "at-the-commit":
        catalog.before_commit = lambda: load(keys(spark, 0, 50), "stepped", catalog=catalog, mode="overwrite")
        failing, mode = keys(spark, 50, 90), "overwrite"
    else:
        failing, mode = spark.range(50, 90).selectExpr("IF(ASSERT_TRUE(id < 85) IS NULL, id, 0) AS k"), "append"
    with pytest.raises((Py4JJavaError, PySparkException)):
        load(failing, "stepped", catalog=catalog, mode=mode)
    assert count(spark, catalog, "stepped") == 50
    load(keys(spark, 50, 90), "stepped", catalog=catalog)
    assert count(spark, catalog, "stepped") == 90
    table = catalog.tables["stepped"]
    snapshot = table.status.snapshot
    assert snapshot is not None
    collect_garbage(agents, table.directory, snapshot.manifest_sha256)
    assert len(data_files(agents, table.directory)) == 2 * snapshot.files
    assert count(spark, catalog, "stepped") == 90


def test_two_appends_at_once_both_land(spark: SparkSession, catalog: FakeCatalog) -> None:
    """None of the rows of either is lost, whichever is first."""
    add_table(catalog, "both", keys(spark, 0, 10), ["k"])
    with ThreadPoolExecutor(3) as pool:
        starts = (100, 200, 300)
        results = list(pool.map(lambda start: load(keys(spark, start, start + 50), "both", catalog=catalog), starts))
    assert sorted(result.snapshot_id for result in results) == [2, 3, 4]
    assert count(spark, catalog, "both") == 160


def test_an_overwrite_that_is_overtaken_reports_it(spark: SparkSession, catalog: FakeCatalog) -> None:
    """It never removes rows that it has not seen."""
    add_table(catalog, "raced", keys(spark, 0, 10), ["k"])
    catalog.before_commit = lambda: load(keys(spark, 10, 30), "raced", catalog=catalog)
    with pytest.raises(SparkRuntimeException, match=r"^LoadConflict: .*this load \(overwrite\) was overtaken: it"):
        load(keys(spark, 500, 600), "raced", mode="overwrite", catalog=catalog)
    assert count(spark, catalog, "raced") == 30


@pytest.fixture
def program(agents: LoopbackAgents, tmp_path: Path) -> Iterator[Callable[[str], tuple[subprocess.Popen[str], str]]]:
    """``program(master)``: the loading program, started, and its table's uid; whatever is left of it is ended."""
    started: list[subprocess.Popen[str]] = []

    def start(master: str) -> tuple[subprocess.Popen[str], str]:
        uid = str(uuid.uuid4())
        trust = agents.trust
        words = [master, uid, json.dumps(agents.urls), str(trust.token), str(trust.certificate), str(tmp_path)]
        with (tmp_path / "program.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.loading_program", *words], stdout=subprocess.PIPE, stderr=log,
                text=True, start_new_session=True, env={**os.environ, "SPARK_LOCAL_DIRS": str(tmp_path)},
            )  # fmt: skip
        started.append(process)
        return process, uid

    yield start
    agents.on_access = lambda access: None
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=20)


@pytest.mark.deep
def test_a_killed_driver_leaves_garbage(
    agents: LoopbackAgents, program: Callable[[str], tuple[subprocess.Popen[str], str]]
) -> None:
    """SIGKILL in the middle of the uploads: no manifest was published, and what was sent is in no snapshot."""
    process, uid = program("local[2]")
    happened = on_nth_upload(agents, 5, lambda: os.killpg(process.pid, signal.SIGKILL))
    output, _ = process.communicate(timeout=240)
    assert happened.is_set() and "COMMITTED" not in output
    directory = f"killed-{uid[:8]}"
    assert not list(agents.roots["node-1"].glob(f"shop/{directory}/manifests/*"))
    assert data_files(agents, directory)  # garbage: it goes after the first commit, or with the table


@pytest.mark.deep
def test_a_killed_executor_is_replaced(
    agents: LoopbackAgents, program: Callable[[str], tuple[subprocess.Popen[str], str]]
) -> None:
    """Its tasks run again elsewhere; each row is committed once, and the first attempts' files are in no manifest."""
    process, uid = program("local-cluster[2,1,700]")

    def kill_an_executor() -> None:
        os.kill(next(executors_below(process.pid)), signal.SIGKILL)

    happened = on_nth_upload(agents, 3, kill_an_executor)
    output, _ = process.communicate(timeout=400)
    assert happened.is_set()
    _, rows, sha256 = output.split()
    assert int(rows) == ROWS
    stored = agents.roots["node-1"] / "shop" / f"killed-{uid[:8]}" / "manifests" / f"{sha256}.json.zst"
    manifest = decode_manifest(stored.read_bytes(), sha256)
    assert sum(file.rows for file in manifest.files) == ROWS
    assert len({file.bucket for file in manifest.files}) == len(manifest.files)
