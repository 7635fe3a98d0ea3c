"""Servers for BI tools and notebooks, as the pods of Kubeflow's operator: the examples, on the tables of this story."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from demo import workload
from demo.shell import COLOCATION, REPOSITORY, kubectl, run
from demo.waiting import wait_until
from tests.support.ports import free_ports

from .conftest import Loaded

pytestmark = [pytest.mark.e2e, pytest.mark.deep]

EXAMPLES = REPOSITORY / "examples"
JARS = Path(pyspark.__file__).parent / "jars"
JOIN = "SELECT count(*), sum(l_orderkey - o_orderkey) FROM orders JOIN lineitem ON o_orderkey = l_orderkey"
EXPLAIN = f"CALL colocation.system.explain('{JOIN}')"
NO_BROADCAST = "SET spark.sql.autoBroadcastJoinThreshold=-1"
CONNECT = f"""
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.sql("USE colocation.{workload.NAMESPACE}")
spark.sql({NO_BROADCAST!r})
print([list(row) for row in spark.sql({JOIN!r}).collect()], spark.sql({EXPLAIN!r}).collect()[0].colocate)
"""
SECONDS = 240
SMALL = {"cores": 1, "memory": "1g"}


def test_kubeflows_spark_connect_serves_joins(loaded: Loaded) -> None:
    """Its controller starts server and executors, on the group's nodes, and ends them with the object."""
    [server] = documents("spark-connect/server.yaml")
    spec = server["spec"]
    spec["server"] |= SMALL
    spec["executor"] |= SMALL
    spec["sparkConf"] = {"spark.kubernetes.executor.request.cores": "200m"}
    run([COLOCATION, "submit", "-f", "-"], stdin=yaml.safe_dump(server))
    kubectl("wait", "sparkconnect/notebooks", "-n", workload.NAMESPACE, "--for=jsonpath={.status.state}=Ready",
            f"--timeout={SECONDS}s")  # fmt: skip
    # Kubeflow's 2.5.2 has no probe of the port, and kubectl stops forwarding at the first refused connection.
    wait_until("the server listens", lambda: "server started" in log_of("notebooks-server"), deadline_seconds=SECONDS)
    wait_until("its executors run", lambda: len(running_on("notebooks-exec")) == 3, deadline_seconds=SECONDS)
    assert set(running_on("notebooks-exec")) <= {node for nodes in workload.bucket_map() for node in nodes}
    with forwarded("notebooks-server", 15002) as port:
        assert connect(port) == f"[[{loaded.oracle.row_count('lineitem')}, 0]] True"
    kubectl("delete", "sparkconnect", "notebooks", "-n", workload.NAMESPACE)
    wait_until("its pods are gone", lambda: not pods("notebooks-"), deadline_seconds=SECONDS)


def test_the_sql_server_serves_jdbc_and_connect(loaded: Loaded) -> None:
    """Beeline through the views and in our catalog, and a session of Spark Connect, by port-forward."""
    program = documents("sql-server/1-program.yaml")
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(program))
    [server] = documents("sql-server/2-application.yaml")
    spec = server["spec"]
    spec["arguments"] = [workload.NAMESPACE]
    for role in ("driver", "executor"):
        spec[role] |= {**SMALL, "coreRequest": "200m"}
    run([COLOCATION, "submit", "-f", "-", "--no-wait"], stdin=yaml.safe_dump(server))
    wait_until("its views", lambda: "are up to date" in log_of("sql-server-driver"), deadline_seconds=SECONDS)
    rows = f"{loaded.oracle.row_count('lineitem')},0"
    with forwarded("sql-server", 10000) as port:
        for database in (workload.NAMESPACE, f"colocation.{workload.NAMESPACE}"):
            count, verdict = beeline(port, database)
            assert count == rows and ",true," in verdict
    with forwarded("sql-server", 15002) as port:
        assert connect(port) == f"[[{loaded.oracle.row_count('lineitem')}, 0]] True"
    kubectl("delete", "sparkapplication", "sql-server", "-n", workload.NAMESPACE)
    kubectl("delete", "-f", "-", stdin=yaml.safe_dump_all(program))


def documents(name: str) -> list[dict[str, Any]]:
    """An example's objects, in this story's namespace and group."""
    made = list(yaml.safe_load_all((EXAMPLES / name).read_text()))
    for one in made:
        one["metadata"]["namespace"] = workload.NAMESPACE
        if "labels" in one["metadata"]:
            one["metadata"]["labels"]["colocation.dev/group"] = workload.GROUP
    return made


def pods(prefix: str) -> list[str]:
    """Pods of such a name, their nodes and phases."""
    columns = "custom-columns=:metadata.name,:spec.nodeName,:status.phase"
    lines = kubectl("get", "pods", "-n", workload.NAMESPACE, "-o", columns, "--no-headers").splitlines()
    return [line for line in lines if line.startswith(prefix)]


def running_on(prefix: str) -> list[str]:
    """The nodes of those that run."""
    return [line.split()[1] for line in pods(prefix) if line.endswith("Running")]


def log_of(pod: str) -> str:
    """Empty while there is none."""
    return kubectl("logs", pod, "-n", workload.NAMESPACE, allowed=(0, 1))


@contextlib.contextmanager
def forwarded(service: str, port: int) -> Iterator[int]:
    """A port of this machine that leads to a service's while the body runs."""
    [here] = free_ports(1)
    command = ["kubectl", "port-forward", f"service/{service}", f"{here}:{port}", "-n", workload.NAMESPACE]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_until("kubectl forwards", lambda: listens(here), deadline_seconds=30)
        yield here
    finally:
        process.terminate()
        process.wait()


def listens(port: int) -> bool:
    """Whether something takes connections."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        time.sleep(0.2)
        return False
    return True


def connect(port: int) -> str:
    """What a client of Spark Connect, in a process of its own, prints of the join and its verdict."""
    python = [str(REPOSITORY / ".venv" / "bin" / "python"), "-c", CONNECT, f"sc://127.0.0.1:{port}"]
    return run(python, timeout_seconds=SECONDS).stdout.strip().splitlines()[-1]


def beeline(port: int, database: str) -> list[str]:
    """The join's row and its verdict, as Hive's client gets them."""
    url = f"jdbc:hive2://127.0.0.1:{port}/{database}"
    options = ["--silent=true", "--outputformat=csv2", "--showHeader=false"]
    command = ["java", "-cp", f"{JARS}/*", "org.apache.hive.beeline.BeeLine", "-u", url, "-n", "anyone", *options]
    output = run([*command, "-e", NO_BROADCAST, "-e", JOIN, "-e", EXPLAIN], timeout_seconds=SECONDS).stdout
    # Each begins with beeline's prompt.
    return [line.rpartition("> ")[2] for line in output.splitlines() if line][-2:]
