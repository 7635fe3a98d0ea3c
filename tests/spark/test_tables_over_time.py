"""What a session sees of the tables over time: new and older snapshots, other groups, damaged tables."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from colocation.model.agent import TableReference
from colocation.model.group import ColocationGroupSpec
from colocation.model.names import private_group_name
from colocation.model.table import Column, TableSnapshot
from colocation.spark import count_exchanges, explain, explain_json
from tests.spark.catalog_server import load, properties, show
from tests.spark.conftest import BUCKETS, add_table, stable_group
from tests.spark.loopback import LoopbackAgents
from tests.unit.spark.fake_catalog import FakeCatalog, GroupObject

pytestmark = pytest.mark.spark


def keys(start: int, end: int) -> str:
    return f"SELECT id AS k, id * 2 AS v FROM range({start}, {end})"


@pytest.fixture(scope="module")
def loaded(application: SparkSession, agents: LoopbackAgents) -> FakeCatalog:
    """``orders`` with two snapshots of 100 and 150 rows, and ``lines``."""
    catalog = stable_group(agents)
    add_table(catalog, "orders", application.sql(keys(0, 100)), ["k"])
    load(application.sql(keys(100, 150)), "orders", catalog=catalog)
    add_table(catalog, "lines", application.sql(keys(0, 120)), ["k"])
    return catalog


@pytest.fixture
def catalog(loaded: FakeCatalog) -> FakeCatalog:
    """A catalog of its own over the same files: the test may load and change tables, but damage none of these files."""
    return loaded.copy()


@pytest.fixture
def session(spark: SparkSession, catalog: FakeCatalog) -> SparkSession:
    """A session in which ``shop.<table>`` is a table of the catalog."""
    show(spark, catalog)
    return spark


@pytest.fixture
def fragile(spark: SparkSession, catalog: FakeCatalog) -> SparkSession:
    """The same with files of ``lines`` that no other test reads."""
    add_table(catalog, "lines", spark.sql(keys(0, 120)), ["k"])
    show(spark, catalog)
    return spark


def count(session: SparkSession, table: str) -> int:
    return session.table(f"shop.{table}").count()


def test_loads_new_tables_and_drops_are_seen_at_once(session: SparkSession, catalog: FakeCatalog) -> None:
    """Each query sees what the cluster has now."""
    load(session.sql(keys(150, 160)), "orders", catalog=catalog)
    add_table(catalog, "line-items", session.sql(keys(0, 7)), ["k"])
    del catalog.tables["lines"]
    assert (count(session, "orders"), count(session, "line_items")) == (160, 7)
    assert not session.catalog.tableExists("shop.lines")


def test_older_snapshots(session: SparkSession) -> None:
    """An older snapshot can be joined with the present one without a shuffle."""
    query = session.sql(
        "SELECT count(*), count(b.k) FROM shop.orders a LEFT JOIN shop.orders VERSION AS OF 1 b ON a.k = b.k"
    )
    assert tuple(query.collect()[0]) == (150, 100)
    assert [join["colocate"] for join in explain_json(query)["joins"]] == [True]


def test_a_snapshot_that_is_not_kept_is_refused(session: SparkSession) -> None:
    """The error lists the snapshots that there are."""
    with pytest.raises(AnalysisException, match=r"keeps no snapshot 7; it keeps: 2 \(.*\), 1 \(.*\)\. .*retention"):
        session.sql("SELECT * FROM shop.orders VERSION AS OF 7")


def test_a_table_without_a_manifest_does_not_hinder_the_others(session: SparkSession, catalog: FakeCatalog) -> None:
    """No agent has its manifest: its properties and every query of it give that reason."""
    lost = TableSnapshot(id=3, manifest="sha256:" + "0" * 64, committed_at="2026-11-21T04:00:00Z")
    catalog.change("lines", snapshot=lost)
    lines = properties(session, "lines")
    assert lines["readable"] == "false"
    assert re.search(r"manifest 0+ of table shop\.lines-\w+ is neither in", lines["reason"])
    assert count(session, "orders") == 150
    with pytest.raises(AnalysisException, match="is neither in"):
        count(session, "lines")


def test_a_group_of_another_namespace(session: SparkSession, catalog: FakeCatalog) -> None:
    """Tables of two namespaces' names for one group join without a shuffle."""
    sales = catalog.groups["sales"]
    spec = sales.spec.model_copy(update={"allowed_namespaces": ("shop",)})
    catalog.groups["accounts/sales"] = GroupObject("accounts", "sales", spec, sales.status)
    for name in ("orders", "lines"):
        table = catalog.tables[name]
        spec = table.spec.model_copy(update={"colocate_with": "accounts/sales"})
        catalog.tables[name] = replace(table, spec=spec)
    assert {properties(session, name)["group"] for name in ("orders", "lines")} == {"accounts/sales"}
    query = session.sql("SELECT count(*) FROM shop.orders a JOIN shop.lines b ON a.k = b.k")
    assert query.collect()[0][0] == 120
    assert count_exchanges(query) == 0
    assert "colocate: true" in explain(query)
    catalog.groups["accounts/sales"] = GroupObject("accounts", "sales", sales.spec, sales.status)
    refused = "NamespaceNotAllowed: group accounts/sales allows namespaces [], and this is namespace shop"
    for name in ("orders", "lines"):
        shown = properties(session, name)
        assert refused in shown["reason"] and shown["colocate"] == "false"
    assert query.sparkSession.table("shop.orders").count() == 150


def test_a_table_in_no_group_is_read_plain(session: SparkSession, catalog: FakeCatalog) -> None:
    """Its rows are found by the map of a group of its own, and its joins are shuffled."""
    table = catalog.tables["lines"]
    catalog.tables["lines"] = replace(table, spec=table.spec.model_copy(update={"colocate_with": ""}))
    own = catalog.groups["sales"]
    private = private_group_name("lines", table.uid)
    catalog.groups[private] = replace(own, name=private)
    lines = properties(session, "lines")
    assert (lines["colocate"], lines.get("group", "")) == ("false", "")
    query = session.sql("SELECT count(*) FROM shop.orders a JOIN shop.lines b ON a.k = b.k")
    assert query.collect()[0][0] == 120
    apart = "colocation.shop.lines is in no group, colocation.shop.orders is in shop/sales"
    assert f"Tables are not in the same group: {apart}" in explain(query)


def test_columns_that_were_added_and_renamed(session: SparkSession, catalog: FakeCatalog) -> None:
    """Files keep their names; queries see the table's present columns, NULL where there was none, and its buckets."""
    table = catalog.tables["orders"]
    columns = (Column(name="k", type="bigint"), Column(name="doubled", type="bigint", stored_as="v"),
               Column(name="note", type="string"))
    catalog.tables["orders"] = replace(table, spec=table.spec.model_copy(update={"columns": columns}))
    query = session.sql("SELECT sum(doubled), count(note) FROM shop.orders a JOIN shop.lines b ON a.k = b.k")
    assert tuple(query.collect()[0]) == (120 * 119, 0)
    assert [join["colocate"] for join in explain_json(query)["joins"]] == [True]
    assert session.sql("SELECT * FROM shop.orders VERSION AS OF 1").columns == ["k", "v"]


def test_files_of_other_buckets_than_the_group(session: SparkSession, catalog: FakeCatalog) -> None:
    """A group that was created again with other buckets: rows are read, but not bucket by bucket with the others."""
    group = catalog.groups["sales"]
    wider = ColocationGroupSpec(bucket_key=("bigint",), buckets=2 * BUCKETS, replicas=2)
    catalog.add_group(wider, group.status)
    query = session.sql("SELECT count(*) FROM shop.orders a JOIN shop.lines b ON a.k = b.k")
    assert query.collect()[0][0] == 120
    assert f"the files have {BUCKETS} buckets, the group has {2 * BUCKETS}" in explain(query)


def test_statements_are_explained_without_running(session: SparkSession) -> None:
    """SQL text is only planned: a query is not run, and a command does nothing."""
    statement = "SELECT k, count(*) FROM shop.orders GROUP BY k"
    [aggregate] = explain_json(statement, session)["aggregates"]
    assert (aggregate["colocate"], aggregate["tables"]) == (True, ["colocation.shop.orders"])
    session.sql("CREATE TABLE spark_catalog.default.copy (k BIGINT) USING parquet")
    insert = "INSERT INTO spark_catalog.default.copy SELECT a.k FROM shop.orders a JOIN shop.lines b ON a.k = b.k"
    assert [join["colocate"] for join in explain_json(insert, session)["joins"]] == [True]
    assert session.table("spark_catalog.default.copy").count() == 0
    session.sql("DROP TABLE spark_catalog.default.copy")


def test_cached_rows(session: SparkSession) -> None:
    """What is cached joins as its plan reports; cached rows that were read without buckets are no colocated join."""
    joined = session.sql("SELECT a.k, a.v FROM shop.orders a JOIN shop.lines b ON a.k = b.k").cache()
    query = joined.join(session.table("shop.lines"), "k")
    assert query.collect()
    explained = explain_json(query)
    assert all(join["colocate"] for join in explained["joins"]) == (explained["exchanges"] == 0)
    joined.unpersist()


def test_broadcast_names_both_sizes(session: SparkSession, catalog: FakeCatalog) -> None:
    """A table below the threshold is broadcast; the reason names how large it is taken to be, and what is allowed."""
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "1g")
    query = session.sql("SELECT a.v FROM shop.orders a JOIN shop.lines b ON a.k = b.k")
    query.collect()
    [join] = explain_json(query)["joins"]
    assert join["reason"].startswith("Broadcast is cheaper: colocation.shop.")
    assert join["reason"].endswith("the threshold is 1073741824 bytes")


def test_data_that_changed_on_disk_fails_the_query(
    fragile: SparkSession, catalog: FakeCatalog, agents: LoopbackAgents
) -> None:
    """A file of the right length with other bytes never changes an answer: the pages' checksums are verified."""
    directory = catalog.tables["lines"].directory
    for file in (path for root in agents.roots.values() for path in (root / "shop" / directory).glob("data/*.parquet")):
        content = bytearray(file.read_bytes())
        content[40] ^= 0x10
        file.write_bytes(content)
    with pytest.raises((PySparkException, Py4JJavaError), match=r"FAILED_READ_FILE"):
        fragile.sql("SELECT sum(k), sum(v) FROM shop.lines").collect()


def test_damage_on_one_disk_changes_no_query(
    fragile: SparkSession, catalog: FakeCatalog, agents: LoopbackAgents
) -> None:
    """The task that met it is repeated with another replica. Where it is repeated next to the damaged file, that file's
    agent sets it aside; elsewhere the scrub finds it.
    """
    wanted = fragile.sql("SELECT sum(k), sum(v) FROM shop.lines").collect()
    lines = catalog.tables["lines"]
    assert lines.status.snapshot is not None
    manifest = lines.status.snapshot.manifest_sha256
    reference = TableReference(namespace=lines.namespace, directory=lines.directory, manifest=manifest)
    agents.ask_about(reference, lines.uid)
    directory = catalog.tables["lines"].directory
    root = agents.roots["node-1"]
    files = sorted((root / "shop" / directory).glob("data/*.parquet"))
    assert files
    for file in files:
        content = bytearray(file.read_bytes())
        content[40] ^= 0x10
        file.write_bytes(content)
    assert fragile.sql("SELECT sum(k), sum(v) FROM shop.lines").collect() == wanted
    set_aside = {file.name for file in (root / ".quarantine" / "shop" / directory).glob("data/*.parquet")}
    assert set_aside <= {file.name for file in files}
    assert not any(file.exists() for file in files if file.name in set_aside)


PLAIN = """
from pyspark.sql import SparkSession
from colocation.spark import explain
explain(SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate().range(3))
"""


def test_explain_in_an_application_without_the_jar() -> None:
    """The error names how to start it."""
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=False, timeout=400)
    assert "RuntimeError: this application has no jar of the coloc:// file system: start its session" in done.stderr
