"""The benchmark's side of the dev cluster: group, tables, and the application with its shared directory."""

import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from demo import cluster
from demo.shell import COLOCATION, REPOSITORY, kubectl, kubectl_json, run
from demo.waiting import wait_until

from .peers import iceberg_conf
from .tables import BUCKETS, GROUP, NAMESPACE, REPLICAS, Table

SHARED = REPOSITORY / "build" / "bench" / "shared"
"""A folder of this machine, mounted into all pods: the peers' directory, on the same disk as the nodes' data roots."""
PROGRAM_FOLDER = "/opt/bench"
SHARED_MOUNT = "/bench"
SPARK_IMAGE = os.environ.get("BENCH_SPARK_IMAGE", cluster.SPARK_IMAGE)
ICEBERG_JAR = f"{SHARED_MOUNT}/iceberg.jar"
EXECUTORS_MEMORY_MIB = 3 * 2048
"""Of all executors together."""
OPERATORS = ("colocation-operator", "spark-operator")
KIND = {"apiVersion": "colocation.dev/v1alpha1"}


def prepare(data: Path, iceberg_jar: Path) -> None:
    """The shared directory with what the pods read from it; what an earlier run left goes."""
    shutil.rmtree(SHARED, ignore_errors=True)
    SHARED.mkdir(parents=True)
    SHARED.chmod(0o777)  # the pods run as another user
    shutil.copytree(data, SHARED / "tpch")
    shutil.copy(iceberg_jar, SHARED / "iceberg.jar")


def apply_tables(tables: Sequence[Table]) -> None:
    """Namespace, rights, group and tables."""
    access = (
        (REPOSITORY / "examples" / "tpch" / "2-access.yaml")
        .read_text()
        .replace("namespace: demo", f"namespace: {NAMESPACE}")
    )
    kubectl("apply", "-f", "-", stdin=f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n")
    kubectl("apply", "-f", "-", stdin=access)
    group = {
        **KIND,
        "kind": "ColocationGroup",
        "metadata": {"name": GROUP, "namespace": NAMESPACE},
        "spec": {"bucketKey": ["bigint"], "buckets": BUCKETS, "replicas": REPLICAS},
    }
    objects = [group, *map(_table, tables)]
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))


def _table(table: Table) -> dict[str, Any]:
    columns = [{"name": name, "type": type_name} for name, type_name in table.columns]
    return {
        **KIND,
        "kind": "ColocatedTable",
        "metadata": {"name": table.name, "namespace": NAMESPACE},
        "spec": {
            "colocateWith": GROUP,
            "columns": columns,
            "bucketedBy": [table.key],
            "partitionedBy": list(table.partitioned_by),
            "sortedBy": list(table.sorted_by),
            **({} if table.buckets == BUCKETS else {"buckets": table.buckets}),
        },
    }


def wait_until_stable() -> None:
    """Until every replica is in its place."""
    kubectl("wait", "--for=condition=Stable", f"colocationgroup/{GROUP}", "-n", NAMESPACE, "--timeout=600s")


def node_to_lose() -> str:
    """A node of the group with neither operator: their loss would be measured, too."""
    nodes = set(_status()["nodes"])
    pods = kubectl_json("get", "pods", "--all-namespaces")["items"]
    busy = {pod["spec"].get("nodeName") for pod in pods if _is_of_an_operator(pod["metadata"].get("labels") or {})}
    return max(nodes - busy)


def _is_of_an_operator(labels: dict[str, str]) -> bool:
    is_on_each_node = labels.get("app.kubernetes.io/component") in ("agent", "holder")
    return labels.get("app.kubernetes.io/name") in OPERATORS and not is_on_each_node


def wait_until_unstable() -> None:
    """Until the operator has noticed that a node is away."""
    wait_until("unstable after the loss of a node", lambda: _status().get("stable") is False, deadline_seconds=180)


def _status() -> dict[str, Any]:
    found: dict[str, Any] = kubectl_json("get", "colocationgroup", GROUP, "-n", NAMESPACE)["status"]
    return found


def submit(command: str, measured: str, number: int, executors: int) -> Any:
    """``colocation submit`` the program and return the results that it left."""
    results = SHARED / "results"
    shutil.rmtree(results, ignore_errors=True)
    manifest = yaml.safe_dump(application([command, measured, str(number)], executors))
    run([COLOCATION, "submit", "-f", "-"], stdin=manifest, timeout_seconds=1800)
    (file,) = results.iterdir()
    return json.loads(file.read_text())


def application(arguments: Sequence[str], executors: int) -> dict[str, Any]:
    """The SparkApplication; the submitter adds placement and configuration."""
    mounts = [
        {"name": "program", "mountPath": f"{PROGRAM_FOLDER}/benchmarks", "readOnly": True},
        {"name": "shared", "mountPath": SHARED_MOUNT},
    ]
    volumes = [
        {"name": "program", "hostPath": {"path": str(REPOSITORY / "benchmarks"), "type": "Directory"}},
        {"name": "shared", "hostPath": {"path": str(SHARED), "type": "Directory"}},
    ]

    def pods(role: str, memory: str) -> dict[str, Any]:
        container = {"name": f"spark-kubernetes-{role}", "volumeMounts": mounts}
        return {
            "cores": 1,
            "coreRequest": "200m",
            "memory": memory,
            "template": {"spec": {"containers": [container], "volumes": volumes}},
        }

    conf = {
        **iceberg_conf(),
        "spark.driver.extraClassPath": ICEBERG_JAR,
        "spark.executor.extraClassPath": ICEBERG_JAR,
        "spark.kubernetes.driverEnv.PYTHONPATH": PROGRAM_FOLDER,
        "spark.executorEnv.PYTHONPATH": PROGRAM_FOLDER,
        # As many as buckets, so that the comparison with a shuffle is one of like with like.
        "spark.sql.shuffle.partitions": str(BUCKETS),
    }
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {
            "name": f"bench-{'-'.join(arguments[:2])}-{time.time_ns() // 1_000_000}",
            "namespace": NAMESPACE,
            "labels": {"colocation.dev/group": GROUP},
        },
        "spec": {
            "type": "Python",
            "mode": "cluster",
            "sparkVersion": "4.1.4", "image": SPARK_IMAGE,
            "mainApplicationFile": f"local://{PROGRAM_FOLDER}/benchmarks/joins/program.py",
            "arguments": list(arguments),
            "sparkConf": conf,
            "driver": {**pods("driver", "2g"), "serviceAccount": "spark"},
            "executor": {**pods("executor", f"{EXECUTORS_MEMORY_MIB // executors}m"), "instances": executors},
        },
    }


