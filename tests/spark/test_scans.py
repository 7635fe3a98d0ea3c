"""Scans: those of other tables are as they would be without us; ours have a file per task, next to its node."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from colocation.model.metrics import SPARK_METRICS
from colocation.model.table_manifest import decode_manifest
from colocation.spark import count_exchanges, read_metrics
from tests.integration.control_plane import ControlPlane
from tests.spark.catalog_server import load, show
from tests.spark.cluster_tables import CATALOG, STABLE, UNSTABLE, ClusterTables
from tests.spark.conftest import BUCKETS, MAP, NODES, add_table
from tests.spark.loopback import LoopbackAgents
from tests.spark.stored_manifests import commit_manifest, newest_manifest, table_folders
from tests.support import manifests
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

NAMESPACE = "scans"
FRAMED_MAGIC = bytes.fromhex("502a4d18")
ORDERS = f"{CATALOG}.{NAMESPACE}.orders"
DAYS = 2
FOREIGN_FILES = 40
SPARKS_OPEN_COST = str(4 << 20)
OPEN_COST = "spark.sql.files.openCostInBytes"
MANAGED_PARTITIONS = "spark.sql.hive.manageFilesourcePartitions"


def rows(spark: SparkSession, start: int = 0) -> DataFrame:
    """300 rows of two days."""
    return spark.sql(f"SELECT id AS k, id AS v, DATE'2024-01-01' + CAST(id % {DAYS} AS INT) AS dt "
                     f"FROM range({start}, {start + 300})")  # fmt: skip


@pytest.fixture(scope="module")
def tables(application: SparkSession, agents: LoopbackAgents, plane: ControlPlane) -> ClusterTables:
    """``orders`` with a file for each bucket and day."""
    made = ClusterTables(plane, agents, NAMESPACE)
    made.add_group("sales", ["bigint"], MAP)
    made.add_table("orders", rows(application), ["k"], ("dt",))
    return made


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> Iterator[SparkSession]:
    """A session of its own with the catalog; the group is stable again afterwards."""
    yield tables.configure(application.newSession())
    tables.change("cg", "sales", **STABLE)


def splits(query: DataFrame) -> list[Any]:
    """The hosts that each task of the scan wants."""
    rdd = query._jdf.queryExecution().executedPlan().execute()
    while not rdd.dependencies().isEmpty():
        rdd = rdd.dependencies().head().rdd()
    return [rdd.preferredLocations(part) for part in rdd.partitions()]


def foreign_tasks(session: SparkSession, folder: Path) -> int:
    return session.read.parquet(str(folder)).rdd.getNumPartitions()


@pytest.fixture(scope="module")
def foreign(application: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Parquet table of many small files, which is not ours."""
    folder = tmp_path_factory.mktemp("foreign") / "t"
    application.range(400).repartition(FOREIGN_FILES).write.parquet(str(folder))
    return folder


def test_other_tables_are_scanned_as_ever(session: SparkSession, foreign: Path) -> None:
    """Their small files share tasks as Spark has them do by itself, before and after a scan of ours."""
    before = foreign_tasks(session, foreign)
    assert session.table(ORDERS).count() == 300
    assert foreign_tasks(session, foreign) == before
    session.conf.set(OPEN_COST, SPARKS_OPEN_COST)
    assert foreign_tasks(session, foreign) == before
    session.conf.set(OPEN_COST, "1g")
    assert foreign_tasks(session, foreign) == FOREIGN_FILES > before


def test_other_tables_keep_their_partitions_in_the_session_catalog(session: SparkSession) -> None:
    """Nothing of the application contradicts that."""
    assert session.conf.get(MANAGED_PARTITIONS) == "true"
    assert "spark.hadoop.parquet.page.verify-checksum.enabled" not in session.sparkContext.getConf().getAll()


def test_a_scan_without_buckets_has_a_file_per_task(session: SparkSession, tables: ClusterTables) -> None:
    """Each wants the hosts of its bucket's two nodes; the session's other settings are followed as they change."""
    tables.change("cg", "sales", **UNSTABLE)
    found = splits(session.table(ORDERS).select("v"))
    assert len(found) == BUCKETS * DAYS
    assert all(hosts.size() == 2 for hosts in found)
    mark = read_metrics(session)
    assert session.table(ORDERS).agg({"v": "sum"}).collect()[0][0] == sum(range(300))
    read = read_metrics(session, mark)
    assert read.remote_bytes == 0 < read.local_bytes
    session.conf.set("spark.sql.files.maxPartitionBytes", "500")
    assert len(splits(session.table(ORDERS).select("v"))) > BUCKETS * DAYS
    session.conf.unset("spark.sql.files.maxPartitionBytes")
    assert len(splits(session.table(ORDERS).select("v"))) == BUCKETS * DAYS


def test_hosts_are_known_without_the_plugin_and_after_lost_events(session: SparkSession) -> None:
    """Spark drops events for a full queue, and has no plugin of ours where ``spark.plugins`` lists others only."""
    jvm = session.sparkContext._jvm
    assert jvm is not None
    known = jvm.dev.colocation.spark.fs.ExecutorHosts.OF_THIS_DRIVER
    removed = jvm.org.apache.spark.scheduler.SparkListenerExecutorRemoved
    for executor in range(len(NODES)):
        known.onExecutorRemoved(removed(0, str(executor), "no such event"))
    assert all(hosts.size() == 2 for hosts in splits(session.table(ORDERS).select("v")))


def test_wide_rows_are_as_large_as_their_files(session: SparkSession, tables: ClusterTables) -> None:
    """Texts are taken for 20 bytes each; no table is taken for smaller than its files."""
    wide = session.range(6).selectExpr("id AS k", "array_join(transform(sequence(1, 2000), x -> uuid()), '') AS text")
    tables.add_table("wide", wide, ["k"])
    read = session.table(f"{CATALOG}.{NAMESPACE}.wide")
    planned = int(str(read._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    assert planned >= tables.get("wide")["status"]["snapshot"]["bytes"] > 100_000


def relation_session(query: DataFrame) -> Any:
    return query._jdf.queryExecution().analyzed().collectLeaves().head().relation().sparkSession()


def test_a_session_has_one_twin(session: SparkSession, application: SparkSession, tables: ClusterTables) -> None:
    """For all of its scans, and no other session has the same."""
    other = tables.configure(application.newSession())
    first, second, third = (relation_session(one.table(ORDERS)) for one in (session, session, other))
    assert first.equals(second)
    assert not first.equals(third)
    assert not first.equals(session._jsparkSession)


def test_a_table_without_buckets_too(spark: SparkSession, catalog: FakeCatalog, foreign: Path) -> None:
    """A partitioned table whose joins are shuffled: a file per task, on a node that holds it."""
    before = foreign_tasks(spark, foreign)
    add_table(catalog, "orders", rows(spark), ["k"], ("dt",))
    spark.conf.set("spark.colocation.disableColocateJoin", "true")
    show(spark, catalog)
    assert spark.conf.get(MANAGED_PARTITIONS) == "true"
    found = splits(spark.table("shop.orders").select("v"))
    assert len(found) == BUCKETS * DAYS
    assert all(hosts.size() == 2 for hosts in found)
    assert foreign_tasks(spark, foreign) == before
    mark = read_metrics(spark)
    assert spark.sql("SELECT sum(v) FROM shop.orders WHERE dt = DATE'2024-01-01'").collect()[0][0] > 0
    assert read_metrics(spark, mark).remote_bytes == 0


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[40] ^= 0x10
    file.write_bytes(content)


def test_damage_on_one_disk_changes_no_query_of_the_catalog(
    session: SparkSession, tables: ClusterTables, agents: LoopbackAgents
) -> None:
    """The task that met it is repeated with another replica, in the same query; also in a session that tells Spark to
    leave out what is damaged.
    """
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    tables.add_table("damaged", rows(session), ["k"])
    query = f"SELECT sum(k), sum(v) FROM {CATALOG}.{NAMESPACE}.damaged"
    wanted = session.sql(query).collect()
    tables.ask_agents_about("damaged")
    files = sorted((agents.roots["node-1"] / NAMESPACE).glob("damaged-*/data/*.parquet"))
    assert files
    for file in files:
        flip_a_byte(file)
    assert session.sql(query).collect() == wanted


def store_framed(catalog: FakeCatalog, agents: LoopbackAgents, name: str) -> None:
    """The table's newest snapshot with its manifest in format 2, as one of very many files has it."""
    folders = table_folders(catalog, agents, name)
    framed = commit_manifest(catalog, folders, name, newest_manifest(catalog, folders, name))
    assert framed[:4] == FRAMED_MAGIC


def test_manifests_of_many_files(
    spark: SparkSession, catalog: FakeCatalog, agents: LoopbackAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Format 2, from the first file on here: loads on top of it, agents, executors and joins are as with format 1."""
    monkeypatch.setattr(manifests, "FRAMED_FROM_FILES", 1)
    for name in ("framed", "others"):
        add_table(catalog, name, rows(spark), ["k"], ("dt",))
        store_framed(catalog, agents, name)
        assert load(rows(spark, 300), name, catalog=catalog).replicas_missing == 0
        store_framed(catalog, agents, name)
    show(spark, catalog)
    mark = read_metrics(spark)
    query = spark.sql("SELECT count(*), sum(a.v - b.v) FROM shop.framed a JOIN shop.others b USING (k, dt)")
    assert tuple(query.collect()[0]) == (600, 0)
    assert count_exchanges(query) == 0
    assert read_metrics(spark, mark).remote_bytes == 0


@pytest.mark.parametrize("newest_format", [1, 2])
def test_what_java_stores_python_reads(spark: SparkSession, newest_format: int) -> None:
    """Of many files, in either format."""
    files = [
        {"path": f"data/part-{number}_{number % 8:05d}.parquet", "bucket": number % 8, "rows": 1, "bytes": number,
         "sha256": "00" * 32}
        for number in range(manifests.FRAMED_FROM_FILES)
    ]  # fmt: skip
    manifest = {"formatVersion": 1, "namespace": "shop", "table": "orders", "uid": "u", "snapshotId": 3, "buckets": 8,
                "columns": [{"name": "k", "type": "bigint"}], "bucketedBy": ["k"], "files": files}  # fmt: skip
    jvm = spark._jvm
    tree = jvm.com.fasterxml.jackson.databind.ObjectMapper().readTree(json.dumps(manifest))
    stored = jvm.dev.colocation.spark.fs.ManifestEncoder.encode(tree, newest_format)
    decoded = decode_manifest(bytes(stored.content()), stored.sha256())
    assert decoded.format_version == newest_format
    assert sorted(file.bytes for file in decoded.files) == list(range(len(files)))


def test_sparks_metrics_system_has_reads_verdicts_and_commits(session: SparkSession, tables: ClusterTables) -> None:
    """All that the reference lists, and they count."""
    assert session.sparkContext._jvm is not None
    system = session.sparkContext._jvm.org.apache.spark.SparkEnv.get().metricsSystem()
    source = system.getSourcesByName("plugin.dev.colocation.spark.ColocationPlugin").head()

    def shown() -> dict[str, int]:
        gauges = source.metricRegistry().getGauges()
        return {name: gauges.get(name).getValue() for name in gauges.keySet()}

    before = shown()
    assert set(before) == {one.name for one in SPARK_METRICS}
    session.sql(f"SELECT sum(v) FROM {ORDERS}").collect()
    tables.add_table("changed", session.sql("SELECT id AS k, id AS v FROM range(2)"), ["k"])
    session.sql(f"UPDATE {CATALOG}.{NAMESPACE}.changed SET v = 3 WHERE k = 1")
    tables.change("cg", "sales", **UNSTABLE)
    session.sql("SET spark.colocation.whenUnstable=shuffle")
    session.sql(f"SELECT sum(v) FROM {ORDERS}").collect()
    after = shown()
    grown = {name for name, number in after.items() if number > before[name]}
    assert grown >= {"verdict.colocated", "verdict.notStable", "commit.bytesWritten"}
    counts = ("committed", "conflicts", "unknown", "rowsChanged", "filesRemoved")
    assert [after[f"commit.{name}"] - before[f"commit.{name}"] for name in counts] == [2, 0, 0, 3, 1]
    assert grown & {"localBytes", "remoteBytes"}
