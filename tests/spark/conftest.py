"""One Spark cluster of three nodes and their agents for all tests; a new namespace of tables for each."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus
from colocation.spark import configure
from tests.spark.loopback import LoopbackAgents, loopback_agents
from tests.spark.standalone import NODE_VARIABLE, standalone_cluster
from tests.unit.spark.fake_catalog import NAMESPACE, FakeCatalog

NODES = ("node-1", "node-2", "node-3")
BUCKETS = 6


@pytest.fixture(scope="session")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackAgents]:
    with loopback_agents(tmp_path_factory.mktemp("nodes"), NODES) as running:
        yield running


@pytest.fixture(scope="session")
def spark(agents: LoopbackAgents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder: Path = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    data_root = agents.roots[NODES[0]].parent / f"${{env.{NODE_VARIABLE}}}"
    with standalone_cluster(folder, NODES) as url:
        builder = configure(
            SparkSession.builder.master(url).appName("colocation-tests"),
            namespace=NAMESPACE,
            data_root=str(data_root),
            token_file=str(agents.trust.token),
            ca_file=str(agents.trust.certificate),
        )
        for key, value in {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "700m",
            "spark.executor.memory": "600m",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.autoBroadcastJoinThreshold": "-1",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.ui.enabled": "false",
        }.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture
def catalog(agents: LoopbackAgents, spark: SparkSession) -> Iterator[FakeCatalog]:
    """A stable group (bigint, six buckets on two nodes each) without tables."""
    catalog = FakeCatalog(agents.urls)
    buckets = tuple((NODES[bucket % 3], NODES[(bucket + 1) % 3]) for bucket in range(BUCKETS))
    catalog.add_group(
        ColocationGroupSpec(bucket_key=("bigint",), buckets=BUCKETS, replicas=2),
        ColocationGroupStatus(stable=True, reason="AllReplicasComplete", backends_per_bucket_seq=buckets),
    )
    yield catalog
    spark.sql(f"DROP DATABASE IF EXISTS {NAMESPACE} CASCADE")
