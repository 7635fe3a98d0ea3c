"""Spark Declarative Pipelines with tables of a group: the engine makes, alters, truncates and fills them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyspark
import pytest

from tests.integration.control_plane import dying_with_us
from tests.spark.cluster_tables import CATALOG, ClusterTables
from tests.spark.sql_clients import CHECKOUT, ConnectClient, Row, Servers

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
pytestmark = [pytest.mark.spark, pytest.mark.skipif(VERSION < (4, 1), reason="pipelines are of Spark 4.1 and newer")]

NAMESPACE = "pipes"
IN = f"{CATALOG}.{NAMESPACE}"
EXAMPLES = CHECKOUT / "examples" / "pipelines"
SALES = "TBLPROPERTIES ('colocate_with' = 'sales')"
RUN_SECONDS = 600
DEFINITIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()
GROUP = {"colocate_with": "sales", "clustered_by": "k"}
"""


@pytest.fixture
def client(servers: Servers, tables: ClusterTables) -> Iterator[ConnectClient]:
    with closing(servers.connect()) as client:
        yield client


class Pipeline:
    """A folder with definitions; ``run`` is the command line's program, against the server."""

    def __init__(self, servers: Servers, folder: Path, example: Path) -> None:
        self._environ = {**os.environ, "SPARK_REMOTE": f"sc://127.0.0.1:{servers.connect_port}"}
        self._folder = folder
        shutil.copytree(example / "transformations", folder / "transformations")
        spec = (example / "spark-pipeline.yml").read_text().splitlines()
        given = {"storage": f"file://{folder}/storage", "catalog": CATALOG, "database": NAMESPACE}
        lines = [f"{key}: {given[key]}" if (key := line.partition(":")[0]) in given else line for line in spec]
        (folder / "spark-pipeline.yml").write_text("\n".join(lines))

    def define(self, definitions: str) -> None:
        """Replaces the definitions."""
        for file in (self._folder / "transformations").glob("*.py"):
            file.unlink()
        (self._folder / "transformations" / "tables.py").write_text(DEFINITIONS + definitions)

    def run(self, *arguments: str) -> str:
        """What it prints."""
        command = [sys.executable, "-m", "pyspark.pipelines.cli", *(arguments or ["run"])]
        done = subprocess.run(
            dying_with_us(command), cwd=self._folder, env=self._environ, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False, timeout=RUN_SECONDS,
        )  # fmt: skip
        return done.stdout

    def completed(self, *arguments: str) -> None:
        """A run that has to succeed."""
        printed = self.run(*arguments)
        assert "Run is COMPLETED" in printed, printed


def sorted_rows(client: ConnectClient, table: str, columns: str = "*") -> list[Row]:
    return sorted(client.run(f"SELECT {columns} FROM {IN}.{table}"), key=repr)


def test_the_example(servers: Servers, client: ConnectClient, tmp_path: Path) -> None:
    """A streaming table, a temporary view and a materialized view: first run, rows that came, everything again."""
    for table, columns in {
        "orders": "o_orderkey BIGINT, o_orderdate DATE, o_totalprice DECIMAL(15,2)",
        "lineitem": "l_orderkey BIGINT, l_extendedprice DECIMAL(15,2)",
    }.items():
        key = columns.partition(" ")[0]
        client.run(f"CREATE TABLE {IN}.{table} ({columns}) CLUSTERED BY ({key}) INTO 6 BUCKETS {SALES}")
    client.run(f"INSERT INTO {IN}.orders SELECT id, DATE '1995-01-01', 0 FROM range(3)")
    client.run(f"INSERT INTO {IN}.lineitem SELECT id DIV 2, id FROM range(8)")
    pipeline = Pipeline(servers, tmp_path, EXAMPLES)
    pipeline.completed("dry-run")
    assert (NAMESPACE, "order_log", "false") not in client.run(f"SHOW TABLES IN {IN}")
    pipeline.completed()
    totals = [(str(order), f"{4 * order + 1}.00") for order in range(4)]
    assert sorted_rows(client, "order_totals", "o_orderkey, price") == totals[:3]
    client.run(f"INSERT INTO {IN}.orders VALUES (3, DATE '1995-01-02', 0)")
    for arguments in [("run",), ("run", "--full-refresh-all"), ("run", "--refresh", "order_totals")]:
        pipeline.completed(*arguments)
        assert sorted_rows(client, "order_totals", "o_orderkey, price") == totals
        assert len(sorted_rows(client, "order_log")) == len(totals)
    shown = client.run(f"SHOW CREATE TABLE {IN}.order_log")[0][0] or ""
    assert "PARTITIONED BY (o_orderdate)\nCLUSTERED BY (o_orderkey) INTO 6 BUCKETS" in shown
    client.run("SET spark.sql.autoBroadcastJoinThreshold = -1")
    join = f"SELECT count(price) FROM {IN}.order_log JOIN {IN}.order_totals USING (o_orderkey)"
    assert [row[1] for row in client.run(f"CALL {CATALOG}.system.explain('{join}')")] == ["true"]


def test_columns_that_come_and_go(servers: Servers, client: ConnectClient, tmp_path: Path) -> None:
    """A streaming table gets columns; a materialized view, which is empty meanwhile, also loses them."""
    client.run(f"CREATE TABLE {IN}.rows (k BIGINT, a INT, b INT) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")
    client.run(f"INSERT INTO {IN}.rows VALUES (1, 2, 3)")
    pipeline = Pipeline(servers, tmp_path, EXAMPLES)

    def run(streamed: str, viewed: str, group: str = "GROUP") -> None:
        pipeline.define(f"""
@dp.table(table_properties={group})
def streamed():
    return spark.readStream.table("rows").select({streamed})

@dp.materialized_view(table_properties={{**GROUP, "buckets": "6"}}, format="parquet")
def viewed():
    return spark.read.table("rows").select({viewed})
""")
        pipeline.completed()

    run("'k', 'a'", "'k', 'a', 'b'")
    client.run(f"INSERT INTO {IN}.rows VALUES (4, 5, 6)")
    more = '{**GROUP, "retention_snapshots": "5", "pipelines.reset.allowed": "false"}'
    run("'k', 'a', 'b'", "'k', 'b'", more)
    assert sorted_rows(client, "streamed") == [("1", "2", None), ("4", "5", "6")]
    assert sorted_rows(client, "viewed") == [("1", "3"), ("4", "6")]
    properties = dict(client.run(f"SHOW TBLPROPERTIES {IN}.streamed"))
    assert (properties["retention_snapshots"], properties["pipelines.reset.allowed"]) == ("5", "false")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ('table_properties={"colocate_with": "sales"}, cluster_by=["k"]', "table_properties={'clustered_by'"),
        ('table_properties={"clustered_by": "k"}', "it names neither a group nor a number of replicas"),
    ],
)
def test_mistakes(servers: Servers, client: ConnectClient, tmp_path: Path, given: str, error: str) -> None:
    """The error names what to give instead."""
    pipeline = Pipeline(servers, tmp_path, EXAMPLES)
    pipeline.define(f"""
@dp.materialized_view({given})
def mistaken():
    return spark.range(3).selectExpr("id AS k")
""")
    assert error in pipeline.run()
    assert (NAMESPACE, "mistaken", "false") not in client.run(f"SHOW TABLES IN {IN}")


@pytest.mark.skipif(VERSION < (4, 2), reason="Auto CDC is of Spark 4.2 and newer")
def test_auto_cdc(servers: Servers, client: ConnectClient, tmp_path: Path) -> None:
    """Changes of rows by MERGE; late ones are left out, and those of removed rows do not bring them back."""
    columns = "c_custkey BIGINT, c_name STRING, op STRING, version BIGINT"
    client.run(f"CREATE TABLE {IN}.customer_changes ({columns}) CLUSTERED BY (c_custkey) INTO 6 BUCKETS {SALES}")
    client.run(f"INSERT INTO {IN}.customer_changes VALUES (1, 'a', 'I', 1), (2, 'b', 'I', 1), (3, 'c', 'I', 1)")
    pipeline = Pipeline(servers, tmp_path, EXAMPLES / "auto-cdc")
    pipeline.completed()
    assert sorted_rows(client, "customers", "c_custkey, c_name") == [("1", "a"), ("2", "b"), ("3", "c")]
    client.run(f"INSERT INTO {IN}.customer_changes VALUES (1, 'A', 'U', 3), (2, NULL, 'D', 3)")
    pipeline.completed()
    client.run(f"INSERT INTO {IN}.customer_changes VALUES (1, 'late', 'U', 2), (2, 'late', 'U', 2), (4, 'd', 'I', 1)")
    newest = [("1", "A"), ("3", "c"), ("4", "d")]
    for arguments in [("run",), ("run", "--full-refresh-all")]:
        pipeline.completed(*arguments)
        assert sorted_rows(client, "customers", "c_custkey, c_name") == newest


@pytest.mark.skipif(VERSION < (4, 3), reason="SCD type 2 is of Spark 4.3 and newer")
def test_versions_of_rows(servers: Servers, client: ConnectClient, tmp_path: Path) -> None:
    """SCD type 2: each version is a row."""
    client.run(f"CREATE TABLE {IN}.versions (k BIGINT, v STRING, n BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")
    client.run(f"INSERT INTO {IN}.versions VALUES (1, 'a', 1), (2, 'b', 1)")
    pipeline = Pipeline(servers, tmp_path, EXAMPLES)
    pipeline.define("""
dp.create_streaming_table("history", table_properties=GROUP)
dp.create_auto_cdc_flow(
    target="history", source="versions", keys=["k"], sequence_by="n", except_column_list=["n"], stored_as_scd_type=2
)
""")
    pipeline.completed()
    client.run(f"INSERT INTO {IN}.versions VALUES (1, 'c', 3), (1, 'between', 2)")
    for arguments in [("run",), ("run", "--full-refresh-all")]:
        pipeline.completed(*arguments)
        assert sorted_rows(client, "history", "k, v, __START_AT, __END_AT") == [
            ("1", "a", "1", "2"), ("1", "between", "2", "3"), ("1", "c", "3", None), ("2", "b", "1", None)
        ]  # fmt: skip
