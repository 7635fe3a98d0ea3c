"""Tables of 12,800 files each: 128 buckets of 100 days."""

import os

import pytest
from pyspark.sql import SparkSession

from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus
from colocation.spark import count_exchanges
from tests.spark.catalog_server import show
from tests.spark.conftest import NODES, add_table
from tests.spark.loopback import LoopbackAgents
from tests.spark.stored_manifests import commit_manifest, newest_manifest, table_folders
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = [pytest.mark.spark, pytest.mark.deep]

BUCKETS, DAYS, KEYS = 128, 100, 1000
MAP = tuple((NODES[bucket % 3], NODES[(bucket + 1) % 3]) for bucket in range(BUCKETS))


@pytest.fixture(scope="module")
def catalog(application: SparkSession, agents: LoopbackAgents) -> FakeCatalog:
    """Tables a, b and c, with the same rows on each day."""
    catalog = FakeCatalog(dict(agents.urls))
    catalog.add_group(
        ColocationGroupSpec(bucket_key=("bigint",), buckets=BUCKETS, replicas=2),
        ColocationGroupStatus(stable=True, reason="AllReplicasComplete", backends_per_bucket_seq=MAP),
    )
    rows = application.sql(f"SELECT id AS k, id % 7 AS v, '0' AS day FROM range({KEYS})")
    for name in "abc":
        add_table(catalog, name, rows, ["k"], ("day",))
        repeat_day(catalog, agents, name)
    return catalog


def repeat_day(catalog: FakeCatalog, agents: LoopbackAgents, name: str) -> None:
    """Commit the table's files for each other day, too; on disks they are links."""
    folders = table_folders(catalog, agents, name)
    manifest = newest_manifest(catalog, folders, name)
    days = tuple(
        file.model_copy(update={"partition": {"day": str(day)}, "path": file.path.replace("day=0", f"day={day}")})
        for day in range(DAYS)
        for file in manifest.files
    )
    for folder in folders:
        first = [(folder / file.path, file.path) for file in manifest.files if (folder / file.path).exists()]
        for day in range(1, DAYS):
            (folder / f"data/day={day}").mkdir()
            for path, name_in_table in first:
                os.link(path, folder / name_in_table.replace("day=0", f"day={day}"))
    commit_manifest(catalog, folders, name, manifest.model_copy(update={"files": days}))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("SELECT count(*), sum(a.v - b.v), sum(b.v - c.v) FROM a JOIN b USING (day, k) "
                     "JOIN c USING (day, k)", (DAYS * KEYS, 0, 0), id="day and key"),
        pytest.param("SELECT count(*), min(n), max(n) FROM (SELECT k, count(*) AS n FROM a GROUP BY k) "
                     "JOIN (SELECT k FROM b GROUP BY k) USING (k) JOIN (SELECT k FROM c GROUP BY k) USING (k)",
                     (KEYS, DAYS, DAYS), id="group-bys of all days"),
    ],
)  # fmt: skip
def test_small_executors_join_them(
    spark: SparkSession, catalog: FakeCatalog, query: str, expected: tuple[int, ...]
) -> None:
    """Of 600 MiB, whose tasks open 300 files, without a shuffle below the joins."""
    show(spark, catalog)
    spark.catalog.setCurrentDatabase("shop")
    rows = spark.sql(query)
    assert tuple(rows.collect()[0]) == expected
    assert count_exchanges(rows) == 0
