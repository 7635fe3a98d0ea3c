"""Tasks run where their buckets lie, also while executors die and are replaced."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from demo import workload
from demo.shell import COLOCATION, run

from .applications import application
from .conftest import Loaded
from .event_log import input_tasks

pytestmark = pytest.mark.e2e

ROUNDS = 4
LEAST_LOCAL = 0.99


@pytest.mark.deep
def test_tasks_run_where_their_bucket_is(loaded: Loaded, tmp_path: Path) -> None:
    """At least 99 % of the input tasks ran on a node that holds their bucket; no byte came from another node."""
    tmp_path.chmod(0o777)  # the driver runs as another user
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    output = run([COLOCATION, "submit", "-f", "-"], stdin=yaml.safe_dump(with_events(tmp_path))).stdout
    result = workload.result_of(output)
    assert (result["exchanges"], result["remoteBytes"], len(result["lost"])) == (0, 0, ROUNDS - 1)
    assert result["localBytes"] > 0
    bucket_map, tasks = workload.bucket_map(), input_tasks(tmp_path)
    assert len(tasks) >= ROUNDS * len(bucket_map)
    at_home = sum(task.local and task.node in bucket_map[task.partition] for task in tasks)
    assert at_home >= LEAST_LOCAL * len(tasks)


def with_events(log_folder: Path) -> dict[str, Any]:
    """Joins while executors die, with an event log on this machine."""
    base = application("tpch-locality", "join_while_executors_die.py")
    spec = base["spec"]
    spec["arguments"] = [str(ROUNDS)]
    spec["sparkConf"] |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": "file:///opt/events",
                          "spark.eventLog.compress": "false"}  # fmt: skip
    pod = spec["driver"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"].append({"name": "events", "mountPath": "/opt/events"})
    pod["volumes"].append({"name": "events", "hostPath": {"path": str(log_folder), "type": "Directory"}})
    return base
