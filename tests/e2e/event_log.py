"""Where a Spark application's tasks ran, by its event log."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOCAL = frozenset({"PROCESS_LOCAL", "NODE_LOCAL"})


@dataclass(frozen=True)
class InputTask:
    """A finished task that read files. ``partition`` is its bucket where the scan is bucketed."""

    partition: int
    node: str
    local: bool


def input_tasks(folder: Path) -> list[InputTask]:
    """The input tasks of the only application whose log is in the folder."""
    nodes: dict[str, str] = {}
    tasks = []
    for event in _events(folder):
        if event["Event"] == "SparkListenerExecutorAdded":
            nodes[event["Executor ID"]] = event["Executor Info"]["Attributes"]["NODE_NAME"]
        elif event["Event"] == "SparkListenerTaskEnd" and _bytes_read(event) > 0:
            task = event["Task Info"]
            tasks.append(InputTask(task["Partition ID"], nodes[task["Executor ID"]], task["Locality"] in LOCAL))
    return tasks


def _bytes_read(event: dict[str, Any]) -> int:
    return int((event.get("Task Metrics") or {}).get("Input Metrics", {}).get("Bytes Read", 0))


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.rglob("events_*")):
        with file.open() as lines:
            yield from (json.loads(line) for line in lines)
