"""Agents restart one after the other, as in an upgrade: running loads and joins wait, go on, and are right."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from colocation.model.names import AGENTS_KEY
from tests.spark.catalog_server import load, show
from tests.spark.conftest import MAP, NODES, add_table, stable_group
from tests.spark.loopback import LoopbackAgents
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

RETRY_SECONDS = "60"
OUTAGE_SECONDS = 1.0
JOIN = "SELECT count(*), sum(a.v - b.v) FROM shop.orders a JOIN shop.orders b ON a.k = b.k"

Restart = Callable[[LoopbackAgents], None]


def one_by_one(agents: LoopbackAgents) -> None:
    """As with a host port: the next process listens where the one before did."""
    for node in NODES:
        agents.stop(node)
        threading.Event().wait(OUTAGE_SECONDS)
        agents.start_again(node)


def one_by_one_elsewhere(agents: LoopbackAgents) -> None:
    """As with pods' IPs: the next process listens elsewhere, and the kubelet tells it a moment later."""
    for node in NODES:
        agents.stop(node)
        threading.Event().wait(OUTAGE_SECONDS)
        agents.start(node)
        addresses = agents.trust.certificate.with_name(AGENTS_KEY)
        new = addresses.with_suffix(".new")
        new.write_text(json.dumps(agents.urls))
        new.rename(addresses)


@contextlib.contextmanager
def restarting(restart: Restart, agents: LoopbackAgents) -> Iterator[threading.Event]:
    """Restarts until left; the event is set once every agent has been restarted once at least."""
    done, leave = threading.Event(), threading.Event()

    def run() -> None:
        while not leave.is_set():
            restart(agents)
            done.set()

    with ThreadPoolExecutor(1, "restarts") as pool:
        restarts = pool.submit(run)
        restarts.add_done_callback(lambda _: done.set())
        try:
            yield done
        finally:
            leave.set()
            restarts.result()


@pytest.fixture
def away(spark: SparkSession, agents: LoopbackAgents) -> Iterator[SparkSession]:
    """A session whose executors see no data root, so that every byte comes from an agent."""
    spark.conf.set("spark.colocation.dataRoot", "/nowhere")
    spark.conf.set("spark.colocation.retrySeconds", RETRY_SECONDS)
    yield spark
    for node in NODES:
        agents.start_if_stopped(node)
    agents.trust.certificate.with_name(AGENTS_KEY).unlink(missing_ok=True)


@pytest.mark.parametrize("restart", [pytest.param(one_by_one, marks=pytest.mark.deep), one_by_one_elsewhere])
def test_joins_go_on_while_agents_restart(away: SparkSession, agents: LoopbackAgents, restart: Restart) -> None:
    """A session that began before answers every join, and rightly."""
    catalog = stable_group(agents)
    add_table(catalog, "orders", away.range(600).selectExpr("id AS k", "id AS v"), ["k"])
    show(away, catalog)
    joins = 0
    with restarting(restart, agents) as all_restarted:
        while joins < 3 or not all_restarted.is_set():
            assert tuple(away.sql(JOIN).collect()[0]) == (600, 0)
            joins += 1


@pytest.mark.parametrize("restart", [one_by_one, pytest.param(one_by_one_elsewhere, marks=pytest.mark.deep)])
def test_loads_go_on_while_agents_restart(away: SparkSession, agents: LoopbackAgents, restart: Restart) -> None:
    """Every load commits all of its rows, on the nodes that the map names."""
    catalog = stable_group(agents)
    add_table(catalog, "orders", away.range(60).selectExpr("id AS k"), ["k"])
    rows, missing = 60, 0
    with restarting(restart, agents) as all_restarted:
        while rows < 200 or not all_restarted.is_set():
            result = load(away.range(rows, rows + 60).selectExpr("id AS k"), "orders", catalog=catalog)
            rows, missing = rows + 60, missing + result.replicas_missing
    catalog.agents = dict(agents.urls)
    show(away, catalog)
    assert away.sql("SELECT count(DISTINCT k) FROM shop.orders").collect()[0][0] == rows
    assert missing == 0


def test_a_moment_without_any_agent_is_waited_for(away: SparkSession, agents: LoopbackAgents) -> None:
    """No replica can be reached; joins and loads that begin to read and write then succeed when the agents are back."""
    catalog = stable_group(agents)
    add_table(catalog, "orders", away.range(600).selectExpr("id AS k", "id AS v"), ["k"])
    show(away, catalog)
    join = away.sql(JOIN)
    more = away.range(600, 660).selectExpr("id AS k", "id AS v")
    for node in NODES:
        agents.stop(node)
    with ThreadPoolExecutor(2) as pool:
        joined = pool.submit(join.collect)
        loaded = pool.submit(load, more, "orders", catalog=catalog)
        threading.Event().wait(OUTAGE_SECONDS)
        for node in NODES:
            agents.start_again(node)
        assert tuple(joined.result()[0]) == (600, 0)
        assert (loaded.result().rows, loaded.result().replicas_missing) == (60, 0)


@pytest.fixture
def impatient(away: SparkSession) -> SparkSession:
    away.conf.set("spark.colocation.retrySeconds", "1")
    return away


@pytest.mark.parametrize("is_known", [True, False], ids=["the operator has noticed", "just now"])
def test_a_load_commits_with_a_node_away(impatient: SparkSession, agents: LoopbackAgents, is_known: bool) -> None:
    """Two replicas, a node down: both copies are on other nodes' disks before the commit, named in the result."""
    catalog = stable_group(agents)
    add_table(catalog, "orders", impatient.range(600).selectExpr("id AS k"), ["k"])
    agents.stop("node-2")
    if is_known:
        del catalog.agents["node-2"]
    result = load(impatient.range(600, 1200).selectExpr("id AS k"), "orders", catalog=catalog)
    buckets = [bucket for bucket, row in enumerate(MAP) if "node-2" in row]
    assert [(one.bucket, one.away) for one in result.substitutes] == [(bucket, "node-2") for bucket in buckets]
    assert all(one.node not in MAP[one.bucket] and one.reason for one in result.substitutes)
    assert result.replicas_missing == len(buckets)
    assert two_copies_of_every_new_file(agents, catalog, result.snapshot_id)
    show(impatient, catalog)
    assert impatient.table("shop.orders").count() == 1200


def two_copies_of_every_new_file(agents: LoopbackAgents, catalog: FakeCatalog, snapshot_id: int) -> bool:
    """On the disks of the nodes that answer."""
    folder = Path("shop") / catalog.tables["orders"].directory / "data"
    names = [path.name for node in ("node-1", "node-3") for path in (agents.roots[node] / folder).glob("*.parquet")]
    new = {name for name in names if names.count(name) == 2}
    rows = {int(name.rsplit("_", 1)[1].split(".")[0]) for name in new}
    return rows == set(range(len(MAP)))
