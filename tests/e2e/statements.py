"""The command's own Spark programs with pods so small that all executors run at once on the nodes of this machine."""

import copy
import json
from typing import Any

import yaml

from demo import workload
from demo.shell import COLOCATION, run

_POD = {"cores": 1, "coreRequest": "200m", "memory": "1g"}
_SMALL_PODS = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
              "spec": {"driver": {**_POD, "serviceAccount": "spark"}, "executor": {**_POD}}}  # fmt: skip
NO_BROADCAST = ("--set", "spark.sql.autoBroadcastJoinThreshold=-1")


def command(name: str, *arguments: str) -> str:
    """The output of ``colocation sql``, ``compact``, … with small pods."""
    application = workload.with_java_options(copy.deepcopy(_SMALL_PODS))
    return run([COLOCATION, name, *arguments, "--application", "-"], stdin=yaml.safe_dump(application)).stdout


def query(statement: str, *options: str) -> dict[str, Any]:
    """What ``colocation sql`` prints as JSON: rows, verdicts on joins, exchanges, bytes."""
    found: dict[str, Any] = json.loads(command("sql", statement, "-o", "json", *options))
    return found
