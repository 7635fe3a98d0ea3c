"""What a statement did, from Spark's status stores and from the files that it left."""

import contextlib
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHUFFLE, BROADCAST, SORT = "Exchange", "BroadcastExchange", "Sort"


class Operators:
    """Operators in the final plans of the queries that begin after this was made, nested ones too."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        self._known = set(self._executions())

    def counted(self) -> Counter[str]:
        """Of each name, as the plans of Spark's UI have them."""
        store = self._store()
        new = [execution for execution in self._executions() if execution not in self._known]
        return Counter(node.name() for one in new for node in _elements(store.planGraph(one).allNodes()))

    def _executions(self) -> list[int]:
        return [execution.executionId() for execution in _elements(self._store().executionsList())]

    def _store(self) -> Any:
        self._spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        return self._spark._jsparkSession.sharedState().statusStore()


class NewFiles:
    """The files that appear below some folders after this was made."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        self._known = set(self._sizes())

    def bytes(self) -> int:
        """Of all new files: data, deletes, manifests and logs."""
        return sum(self._new().values())

    def data_files(self) -> int:
        """How many of them hold rows."""
        return sum(path.suffix == ".parquet" for path in self._new())

    def _new(self) -> dict[Path, int]:
        return {path: size for path, size in self._sizes().items() if path not in self._known}

    def _sizes(self) -> dict[Path, int]:
        files = (path for folder in self._folders for path in folder.rglob("*") if path.is_file())
        return {path: path.stat().st_size for path in files}


def _elements(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def cpu_seconds() -> float:
    """Of all processes that this one has started, and theirs, as far as they live."""
    ticks = 0
    parents, times = {}, {}
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            parents[int(process.name)], times[int(process.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    for process_id, used in times.items():
        ancestor: int | None = process_id
        while ancestor and ancestor != os.getpid():
            ancestor = parents.get(ancestor)
        ticks += used if ancestor and process_id != os.getpid() else 0
    return ticks / os.sysconf("SC_CLK_TCK")
