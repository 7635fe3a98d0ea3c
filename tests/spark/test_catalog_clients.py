"""The catalog by every way into Spark: spark-sql, Scala, Thrift (JDBC) and Spark Connect; nothing of it is in Hive."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from colocation.spark import spark_conf
from tests.integration.control_plane import ControlPlane
from tests.spark.cluster_tables import CATALOG, CATALOG_CLASS, CATALOG_KEY, ClusterTables
from tests.spark.conftest import MAP
from tests.spark.loopback import LoopbackAgents
from tests.spark.standalone import SPARK_HOME

pytestmark = pytest.mark.spark

CHECKOUT = Path(__file__).parents[2]
NAMESPACE = "clients"
JOIN = f"SELECT count(*) FROM {CATALOG}.{NAMESPACE}.orders a JOIN {CATALOG}.{NAMESPACE}.lines b ON a.k = b.k"


@pytest.fixture(scope="module")
def conf(application: SparkSession, agents: LoopbackAgents, plane: ControlPlane) -> dict[str, str]:
    """Two tables whose join has 70 rows, and a user's configuration for them."""
    tables = ClusterTables(plane, agents, NAMESPACE)
    tables.add_group("sales", ["bigint"], MAP)
    tables.add_table("orders", application.sql("SELECT id AS k FROM range(100)"), ["k"])
    tables.add_table("lines", application.sql("SELECT id + 30 AS k FROM range(100)"), ["k"])
    return {
        CATALOG_KEY: CATALOG_CLASS,
        f"{CATALOG_KEY}.kubeconfig": str(plane.kubeconfig),
        "spark.colocation.tokenFile": str(agents.trust.token),
        "spark.colocation.caFile": str(agents.trust.certificate),
        "spark.colocation.retrySeconds": "2",
    }


def test_servers(conf: dict[str, str], tmp_path: Path) -> None:
    """Scala's session, a Connect client and a JDBC client of one driver get the answer; Hive has no table of ours."""
    given = json.dumps({"conf": conf, "statement": JOIN})
    command = [sys.executable, "-m", "tests.spark.catalog_servers_program", str(tmp_path), given]
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=400, cwd=tmp_path
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stderr[-5000:]
    found = json.loads(lines[0].removeprefix("FOUND "))
    assert found == {"scala": 70, "connect": 70, "thrift": 70, "databases": ["default"]}


@pytest.mark.every_spark
def test_spark_sql(conf: dict[str, str], tmp_path: Path) -> None:
    """The shell writes, prints the answer, and what to use instead of UPDATE."""
    script = tmp_path / "script.sql"
    rewritten = "INSERT OVERWRITE orders SELECT k FROM orders"
    script.write_text(f"USE {CATALOG}.{NAMESPACE};\nSHOW TABLES;\n{rewritten};\n{JOIN};\nUPDATE orders SET k = 1;\n")
    options = {**spark_conf(), **conf, "spark.sql.catalogImplementation": "in-memory", "spark.ui.enabled": "false",
               "spark.driver.host": "127.0.0.1"}  # fmt: skip
    properties = tmp_path / "spark.conf"
    properties.write_text("".join(f"{key} {value}\n" for key, value in options.items()))
    command = [str(SPARK_HOME / "bin" / "spark-sql"), "--master", "local[1]", "--properties-file", str(properties)]
    environment = {**os.environ, "SPARK_HOME": str(SPARK_HOME)}
    done = subprocess.run(
        [*command, "-f", str(script)], env=environment, capture_output=True, text=True, check=False, timeout=300,
        cwd=tmp_path,
    )  # fmt: skip
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert ["70"] in rows and ["orders"] in rows, done.stderr[-5000:]
    assert "lake.clients.orders does not take UPDATE: write the changed rows anew with INSERT OVERWRITE" in done.stderr
