"""One Spark cluster of three nodes and their agents for all tests; new tables for each."""

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus
from colocation.model.table import ColocatedTableSpec, Column
from colocation.spark import LoadResult, configure
from tests.integration.control_plane import ControlPlane, running_plane
from tests.spark import catalog_server, class_archive
from tests.spark.catalog_server import load
from tests.spark.cluster_tables import ClusterTables
from tests.spark.judging_operator import judged_tables
from tests.spark.loopback import LoopbackAgents, loopback_agents
from tests.spark.sql_clients import Servers, client_conf, running_servers
from tests.spark.standalone import NODE_VARIABLE, standalone_cluster
from tests.unit.spark.fake_catalog import GROUP, NAMESPACE, FakeCatalog

NODES = ("node-1", "node-2", "node-3")
BUCKETS = 6
MAP = tuple((NODES[bucket % 3], NODES[(bucket + 1) % 3]) for bucket in range(BUCKETS))


@pytest.fixture(scope="session", autouse=True)
def quick_java() -> Iterator[None]:
    """Every ``java`` reads it: drivers, executors, servers, clients, and Spark's launcher."""
    with pytest.MonkeyPatch.context() as patch:
        given = os.environ.get("JDK_JAVA_OPTIONS", "")
        patch.setenv("JDK_JAVA_OPTIONS", f"{class_archive.java_options()} {given}".strip())
        yield


@pytest.fixture(scope="session")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackAgents]:
    with loopback_agents(tmp_path_factory.mktemp("nodes"), NODES) as running:
        yield running


@pytest.fixture(scope="session")
def application(agents: LoopbackAgents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The application: an executor on each node, which sees that node's data root only."""
    folder: Path = tmp_path_factory.mktemp("spark")
    (folder / "api").mkdir()
    data_root = agents.roots[NODES[0]].parent / f"${{env.{NODE_VARIABLE}}}"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with standalone_cluster(folder, NODES) as url, catalog_server.running(folder / "api") as served:
        builder = configure(
            SparkSession.builder.master(url).appName("colocation-tests"),
            namespace=NAMESPACE,
            data_root=str(data_root),
            token_file=str(agents.trust.token),
            ca_file=str(agents.trust.certificate),
        )
        for key, value in {
            catalog_server.KUBECONFIG_KEY: str(served.kubeconfig),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "700m",
            "spark.executor.memory": "600m",
            "spark.sql.shuffle.partitions": "3",
            "spark.sql.autoBroadcastJoinThreshold": "-1",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.task.maxFailures": "2",
            "spark.executor.heartbeatInterval": "1s",
            "spark.ui.enabled": "false",
            "spark.colocation.retrySeconds": "2",
            "spark.ui.showConsoleProgress": "false",
        }.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """A real API server with our kinds, for the catalog in Java."""
    with running_plane() as running:
        yield running


@pytest.fixture(scope="session")
def servers(
    application: SparkSession, agents: LoopbackAgents, plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """A driver with a Thrift server, a Spark Connect server and a Hive metastore."""
    conf = client_conf(agents, plane)
    with running_servers(tmp_path_factory.mktemp("servers"), conf, application) as running:
        yield running


@pytest.fixture
def spark(application: SparkSession) -> SparkSession:
    """A session of its own: configuration and views of one test are not seen by the next."""
    return application.newSession()


@pytest.fixture(scope="module")
def tables(agents: LoopbackAgents, plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[ClusterTables]:
    """The tables of the module's NAMESPACE, which an operator judges."""
    with judged_tables(plane, agents, request.module.NAMESPACE, MAP) as made:
        yield made


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> SparkSession:
    """A session of its own with the module's catalog, in UTC."""
    session = tables.configure(application.newSession())
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def stable_group(agents: LoopbackAgents) -> FakeCatalog:
    """A stable group (bigint, six buckets on two nodes each) without tables."""
    catalog = FakeCatalog(dict(agents.urls))
    catalog.add_group(
        ColocationGroupSpec(bucket_key=("bigint",), buckets=BUCKETS, replicas=2),
        ColocationGroupStatus(stable=True, reason="AllReplicasComplete", backends_per_bucket_seq=MAP),
    )
    return catalog


def add_table(
    catalog: FakeCatalog,
    name: str,
    rows: DataFrame,
    key: list[str],
    partitioned_by: tuple[str, ...] = (),
    group: str = GROUP,
    sorted_by: tuple[str, ...] = (),
) -> LoadResult:
    """Make a table of a DataFrame's schema and load the DataFrame into it."""
    columns = tuple(Column(name=field.name, type=field.dataType.simpleString()) for field in rows.schema.fields)
    spec = ColocatedTableSpec(
        colocate_with=group,
        columns=columns,
        bucketed_by=tuple(key),
        partitioned_by=partitioned_by,
        sorted_by=sorted_by,
    )
    catalog.add_table(name, spec, str(uuid.uuid4()))
    return load(rows, name, catalog=catalog)


@pytest.fixture
def catalog(agents: LoopbackAgents) -> FakeCatalog:
    return stable_group(agents)
