"""The tab "Colocation" of Spark's web UI, read by HTTP from a driver of its own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from colocation.model.query_line import find_queries
from colocation.spark import spark_conf
from tests.spark.cluster_tables import CATALOG, ClusterTables, make_table
from tests.spark.loopback import LoopbackAgents
from tests.spark.sql_clients import client_conf

pytestmark = pytest.mark.spark

NAMESPACE = "web-ui"
PROGRAM = Path(__file__).with_name("web_ui_program.py")


def test_why_queries_shuffled_is_in_the_web_ui(
    session: SparkSession, tables: ClusterTables, agents: LoopbackAgents
) -> None:
    """Only queries on colocated tables, the newest first, with the verdicts of `explain` and links to their plans."""
    table = make_table(session, f"{CATALOG}.`{NAMESPACE}`.pairs", "k BIGINT, v INT")
    session.range(20).selectExpr("id AS k", "CAST(id AS INT) AS v").writeTo(table).append()
    conf = {
        **spark_conf(data_root=str(agents.roots["node-1"])), **client_conf(agents, tables.plane),
        "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.driver.host": "127.0.0.1",
        "spark.sql.autoBroadcastJoinThreshold": "-1", "spark.ui.showConsoleProgress": "false",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(conf), table], capture_output=True, text=True, check=False,
        timeout=300, env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("PAGE ")]
    before, after = (json.loads(line.removeprefix("PAGE ")) for line in lines)
    assert "No query on a colocated table has ended yet" in before
    shuffled, colocated = re.findall(r"<tr><td><a.*?</tr>", after)
    assert "Session disabled" in shuffled and "&#10007; SortMergeJoin Inner" in shuffled
    assert "&#10003; SortMergeJoin Inner" in colocated and "colocate: true" in colocated
    assert re.search(r'href="[^"]*/SQL/execution/\?id=\d+"', colocated)
    logged = [(one.tables, next(verdict.colocate for verdict in one.verdicts)) for one in find_queries(done.stderr)]
    assert logged == [((f"{CATALOG}.{NAMESPACE}.pairs",), True), ((f"{CATALOG}.{NAMESPACE}.pairs",), False)]
