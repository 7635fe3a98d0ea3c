"""Other people's tools on our tables: a BI tool's JDBC, a notebook and dbt run the files of ``examples/`` as they are.

One driver serves them all: the program of ``examples/sql-server``, with that application's configuration.
"""

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from colocation.spark import spark_conf
from colocation.spark.configuration import CATALOG
from tests.integration.control_plane import ControlPlane, dying_with_us
from tests.spark.class_archive import SPARK_HOME
from tests.spark.cluster_tables import ClusterTables
from tests.spark.conftest import NODES
from tests.spark.judging_operator import judged_tables
from tests.spark.loopback import LoopbackAgents
from tests.spark.sql_clients import CHECKOUT, ConnectClient, Servers, SqlError
from tests.support.environments import environment
from tests.support.ports import free_ports

pytestmark = pytest.mark.spark

NAMESPACE = "shop"
EXAMPLES = CHECKOUT / "examples"
MAP = tuple((NODES[bucket % 3], NODES[(bucket + 1) % 3]) for bucket in range(8))
PROGRAM_SECONDS = 200
RUN_CELLS = """
import contextlib, io, json, sys
names, printed = {}, []
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec("".join(cell["source"]), names)
        printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""
SEEDS = """
seeds:
- name: weekdays
  config: {column_types: {day: bigint}, clustered_by: [day], buckets: 8, tblproperties: {colocate_with: sales}}
"""
READY = f"views of namespace {NAMESPACE} are up to date"


@pytest.fixture(scope="module")
def tables(plane: ControlPlane, agents: LoopbackAgents) -> Iterator[ClusterTables]:
    """The tables of examples/shop, empty."""
    with judged_tables(plane, agents, NAMESPACE, MAP) as made:
        for item in documents(EXAMPLES / "shop" / "tables.yaml"):
            if item["kind"] == "ColocatedTable":
                made.make(item["kind"], item["metadata"]["name"], item["spec"])
        yield made


@pytest.fixture(scope="module")
def server(
    tables: ClusterTables, agents: LoopbackAgents, application: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """The example's program with the example's configuration, on this machine; the tables have rows."""
    folder = tmp_path_factory.mktemp("sql-server")
    program = documents(EXAMPLES / "sql-server" / "1-program.yaml")[0]["data"]
    (folder / "sql_server.py").write_text(program["sql_server.py"])
    thrift, connect = free_ports(2)
    conf = {
        **application_conf(),
        f"spark.sql.catalog.{CATALOG}.kubeconfig": str(tables.plane.kubeconfig),
        "spark.colocation.tokenFile": str(agents.trust.token),
        "spark.colocation.caFile": str(agents.trust.certificate),
        "spark.master": "local[3]",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.hive.server2.thrift.port": str(thrift),
        "spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(connect),
    }
    (folder / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in conf.items()))
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            dying_with_us([sys.executable, "sql_server.py", NAMESPACE]), cwd=folder, text=True, stdout=subprocess.PIPE,
            stderr=log, env={**os.environ, "SPARK_CONF_DIR": str(folder)},
        )  # fmt: skip
    try:
        assert process.stdout is not None
        printed = next((line for line in process.stdout if NAMESPACE in line), "")
        assert READY in printed, printed + (folder / "server.log").read_text()[-3000:]
        running = Servers(process, folder / "warehouse", application.sparkContext._jvm, thrift, connect)
        load(running)
        yield running
    finally:
        process.terminate()
        process.wait(timeout=100)


def documents(file: Path) -> list[dict[str, Any]]:
    """The objects of a manifest."""
    return list(yaml.safe_load_all(file.read_text()))


def application_conf() -> dict[str, str]:
    """The example's settings and ours, as ``colocation submit`` puts them together."""
    theirs = documents(EXAMPLES / "sql-server" / "2-application.yaml")[0]["spec"]["sparkConf"]
    ours = spark_conf(namespace=NAMESPACE)
    # As in the image, the jar is where every class loader of the driver finds it.
    ours["spark.driver.extraClassPath"] = ours.pop("spark.jars")
    return {**ours, **theirs, "spark.plugins": f"{ours['spark.plugins']},{theirs['spark.plugins']}"}


def load(server: Servers) -> None:
    """Three orders a day in the first week of 1995, two items each."""
    with closing(server.thrift("colocation.shop")) as client:
        client.run(
            "INSERT INTO orders SELECT id, date_add(DATE '1995-01-01', CAST(id DIV 3 AS INT)), id FROM range(21)"
        )
        client.run("INSERT INTO lineitem SELECT id DIV 2, id FROM range(42)")


def test_browsing_by_jdbc(server: Servers) -> None:
    """A BI tool lists tables and columns by JDBC's metadata; a query of these views joins without a shuffle."""
    with closing(server.thrift("shop")) as client:
        assert ("shop",) in client.schemas()
        assert sorted(client.tables("shop")) == [("shop", "lineitem", "VIEW"), ("shop", "orders", "VIEW")]
        assert client.columns("shop", "orders") == [
            ("o_orderkey", "BIGINT"), ("o_orderdate", "DATE"), ("o_totalprice", "DECIMAL(15,2)")
        ]  # fmt: skip
        client.run("SET spark.sql.autoBroadcastJoinThreshold=-1")
        join = "SELECT count(*) FROM orders JOIN lineitem ON o_orderkey = l_orderkey"
        assert client.run(join) == [("42",)]
        assert [row[1] for row in client.run(f"CALL colocation.system.explain('{join}')")] == ["true"]


def test_views_of_users_stay(server: Servers) -> None:
    """The program drops its views of tables that are gone, and no others."""
    program = runpy.run_path(str(server.warehouse.parent / "sql_server.py"))
    with closing(server.connect()) as client:
        client.run("CREATE VIEW spark_catalog.shop.mine AS SELECT 1 AS one")
        try:
            client.run(
                "CREATE VIEW spark_catalog.shop.gone TBLPROPERTIES ('made-by' = 'sql_server.py') AS SELECT 1 AS one"
            )
            program["show_views"](client.session, NAMESPACE)
            assert {row[1] for row in client.run("SHOW VIEWS IN spark_catalog.shop")} == {"lineitem", "mine", "orders"}
        finally:
            client.run("DROP VIEW spark_catalog.shop.mine")


@pytest.mark.parametrize("database", ["colocation.shop", "default?spark.sql.defaultCatalog=colocation"])
def test_a_session_in_our_catalog(server: Servers, database: str) -> None:
    """The JDBC URL names the catalog, so that names of tables are those of our catalog."""
    with closing(server.thrift(database)) as client:
        assert client.run("SELECT current_catalog()") == [("colocation",)]
        assert ("shop", "orders", "false") in client.run("SHOW TABLES IN shop")
        with pytest.raises(SqlError, match="CREATE VIEW spark_catalog"):
            client.run("CREATE VIEW shop.seen AS SELECT 1")


def test_the_notebook(server: Servers) -> None:
    """Its cells print what is stored in the notebook."""
    notebook = EXAMPLES / "notebook" / "colocated-joins.ipynb"
    done = subprocess.run(
        [sys.executable, "-c", RUN_CELLS, str(notebook)], capture_output=True, text=True, check=False,
        timeout=PROGRAM_SECONDS, env={**os.environ, "SPARK_REMOTE": f"sc://127.0.0.1:{server.connect_port}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    assert printed == ["".join("".join(output["text"]) for output in cell["outputs"]) for cell in cells]


def test_errors_in_notebooks_have_no_java_stack(server: Servers) -> None:
    """Of the server: 7,000 characters behind each message."""
    wrong = (
        "SELECT * FROM colocation.shop.oders", "CREATE TABLE colocation.shop.t (k BIGINT)", "SELECT CAST('x' AS INT)"
    )  # fmt: skip
    with closing(server.connect()) as client:
        for statement in wrong:
            with pytest.raises(SqlError) as refused:
                client.run(statement)
            assert "JVM stacktrace" not in str(refused.value)
            assert len(str(refused.value)) < 1000


@pytest.mark.deep
def test_the_server_of_kubeflows_kind(tmp_path: Path) -> None:
    """The script in our image serves Spark Connect in the foreground; Kubeflow's SparkConnect runs it."""
    [port] = free_ports(1)
    conf = {"spark.connect.grpc.binding.port": port, "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    script = CHECKOUT / "spark_images" / "sbin" / "start-connect-server.sh"
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(
            dying_with_us([str(script), "--master", "local[1]", *options]), cwd=tmp_path, stdout=log, stderr=log,
            env={**os.environ, "SPARK_HOME": str(SPARK_HOME)},
        )  # fmt: skip
    try:
        with closing(ConnectClient(port)) as client:
            assert client.run("SELECT 42") == [("42",)]
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(timeout=100)


def test_dbt(server: Servers, tables: ClusterTables, tmp_path: Path) -> None:
    """A view and an incremental model that merges, run twice: the second run changes what changed since the first."""
    prices = [(str(day), str(3), f"{sum(range(day * 6, day * 6 + 6))}.00") for day in range(7)]
    by_day = "SELECT datediff(o_orderdate, DATE '1995-01-01'), orders, price FROM spark_catalog.reports.daily_prices"
    with closing(server.thrift("colocation.shop")) as client:
        assert "PASS=2" in dbt(server, tmp_path, "build")
        assert sorted(client.run(by_day)) == prices
        client.run("INSERT INTO lineitem VALUES (20, 1000), (5, 1000)")
        assert "PASS=2" in dbt(server, tmp_path, "build")
        prices[6] = ("6", "3", "1231.00")
        assert sorted(client.run(by_day)) == prices
        commits = "SELECT operation, rows_updated, rows_inserted FROM order_prices.snapshots ORDER BY snapshot_id"
        assert client.run(commits)[1:] == [("merge", "3", "0")]


def test_strategies_of_dbt(server: Servers, tables: ClusterTables, tmp_path: Path) -> None:
    """A seed, and models that append with new columns, overwrite partitions and are made again, twice; their tests."""
    project = tmp_path / "project"
    shutil.copytree(EXAMPLES / "dbt", project, ignore=shutil.ignore_patterns("models"))
    shutil.copytree(Path(__file__).with_name("dbt_models"), project / "models")
    (project / "seeds").mkdir()
    (project / "seeds" / "weekdays.csv").write_text("day,name\n1,Sunday\n2,Monday\n")
    (project / "seeds" / "seeds.yml").write_text(SEEDS)
    with closing(server.thrift("colocation.shop")) as client:
        first = dbt(server, tmp_path, "build", "--vars", "{wide: false, more: 0}", project=project)
        assert "PASS=6" in first, first
        client.run("INSERT INTO orders VALUES (21, DATE '1995-01-08', 21)")
        second = dbt(server, tmp_path, "build", "--vars", "{wide: true, more: 100}", project=project)
        assert "PASS=6" in second, second
        appended = "SELECT count(*), count(price), max(price) FROM appended"
        assert client.run(appended) == [("22", "1", "21.00")]
        assert client.run("SELECT count(*), sum(price) FROM whole") == [("22", f"{sum(range(22)) + 2200}.00")]
        assert client.run("SELECT count(*), max(name) FROM weekdays") == [("2", "Sunday")]
        by_day = "SELECT o_orderdate >= DATE '1995-01-07', count(*), sum(price) FROM days GROUP BY 1 ORDER BY 1"
        assert client.run(by_day) == [
            ("false", "18", f"{sum(range(18))}.00"), ("true", "4", f"{sum(range(18, 22)) + 400}.00")
        ]  # fmt: skip
        documented = dbt(server, tmp_path, "docs", "generate", "--vars", "{wide: true, more: 0}", project=project)
        assert "Catalog written" in documented, documented
        for table in ("appended", "whole", "days", "weekdays"):
            client.run(f"DROP TABLE {table}")
        client.run("DELETE FROM orders WHERE o_orderkey = 21")


def dbt(server: Servers, folder: Path, *arguments: str, project: Path = EXAMPLES / "dbt") -> str:
    """What dbt prints, which has to succeed."""
    environ = {**os.environ, "THRIFT_HOST": "127.0.0.1", "THRIFT_PORT": str(server.thrift_port)}
    folders = ["--target-path", str(folder), "--log-path", str(folder)]
    command = [str(environment("dbt") / "dbt"), *arguments, "--profiles-dir", ".", *folders]
    done = subprocess.run(
        command, cwd=project, env=environ, capture_output=True, text=True, check=False, timeout=PROGRAM_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
