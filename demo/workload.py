"""The demo's tables and joins, driven as a user does: kubectl apply, ``colocation load``, ``colocation submit``."""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .data import Q12, TABLES, THREE_WAY_COUNT, Oracle
from .shell import COLOCATION, REPOSITORY, kubectl, kubectl_json, run

EXAMPLES = REPOSITORY / "examples" / "tpch"
NAMESPACE = "demo"
GROUP = "tpch"
SELECT = {"orders": "*, year(o_orderdate) as o_year", "lineitem": "*, year(l_shipdate) as l_year"}
RESULT_MARK = "COLOCATION_RESULT "
JAVA_OPTIONS: list[str] = []
"""Of all drivers and executors. Tests and small demos add ``QUICK_JAVA``."""
QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m -XX:ReservedCodeCacheSize=192m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""For applications that end before optimised code would pay: a small join takes 18 seconds of a processor, not 28.

They also end before Java needs memory for classes back, and the jars of an image need no check of their byte code.
"""


@dataclass(frozen=True)
class JoinRun:
    """One submitted join: what the driver measured, and whether its answers are DuckDB's.

    ``exchanges`` are the shuffles between a table scan and a join in the executed plans; ``first_seconds`` is the time
    of the queries in the driver, without the pods' start.
    """

    exchanges: int
    remote_bytes: int
    first_seconds: float
    answer_ok: bool
    decision: str
    spark_version: str

    def report(self) -> dict[str, object]:
        """The fields of the report."""
        return {"exchanges": self.exchanges, "remote_bytes": self.remote_bytes,
                "first_seconds": round(self.first_seconds, 2), "answer_ok": self.answer_ok}


@dataclass(frozen=True)
class ShuffledRuns:
    """The same queries with a shuffle; ``seconds`` as in `ComparedJoin`."""

    exchanges: int
    seconds: float
    answer_ok: bool

    def report(self) -> dict[str, object]:
        """The fields of the report."""
        return {"exchanges": self.exchanges, "seconds": round(self.seconds, 2), "answer_ok": self.answer_ok}


@dataclass(frozen=True)
class ComparedJoin:
    """One submitted join, run again and then with a shuffle, in the same session; ``seconds``: the median, warm."""

    first: JoinRun
    seconds: float
    shuffled: ShuffledRuns

    def report(self) -> dict[str, object]:
        """The fields of the report."""
        return {**self.first.report(), "seconds": round(self.seconds, 2)}


def group() -> dict[str, Any]:
    """The group as the API server has it."""
    return kubectl_json("get", "colocationgroup", GROUP, "-n", NAMESPACE)


def group_status() -> dict[str, Any]:
    """The group's status, empty before the operator saw it."""
    status: dict[str, Any] = group().get("status", {})
    return status


def stable_condition() -> dict[str, str]:
    """The group's Stable condition."""
    return next(condition for condition in group_status()["conditions"] if condition["type"] == "Stable")


def bucket_map() -> list[list[str]]:
    """The group's map, nodes per bucket."""
    return [list(nodes) for nodes in group_status()["backendsPerBucketSeq"]]


def kubectl_get_groups() -> str:
    """What ``kubectl get colocationgroups`` prints."""
    return kubectl("get", "colocationgroups", "-n", NAMESPACE)


def apply_tables(down_tolerance_seconds: int) -> None:
    """Create the namespace, the rights, the group (with a tolerance short enough to watch) and its tables."""
    kubectl("apply", "-f", str(EXAMPLES))
    patch = {"spec": {"relocation": {"downToleranceSeconds": down_tolerance_seconds}}}
    kubectl("patch", "colocationgroup", GROUP, "-n", NAMESPACE, "--type=merge", "-p", json.dumps(patch))


def load(table: str, data: Path, *, source: str = "", select: str = "", mode: str = "overwrite",
         namespace: str = NAMESPACE, options: Sequence[str] = (), executors: int | None = None) -> dict[str, Any]:
    """``colocation load`` a table from one of TPC-H's files (default: that of its name); returns what it reported.

    Default ``executors``: the example's, one on each node.
    """
    application = example("load")
    application["metadata"]["namespace"] = namespace
    if executors:
        application["spec"]["executor"]["instances"] = executors
    _set_input_folder(application, data)
    command = [COLOCATION, "load", table, "--from", f"/tpch/{source or table}.parquet",
               "--select", select or SELECT[table], "--mode", mode, "-n", namespace, "--application", "-", *options]
    return result_of(run(command, stdin=yaml.safe_dump(application)).stdout)


def load_all(data: Path, executors: int | None = None) -> dict[str, int]:
    """Load all tables at once, since each load mostly waits for Java to start; returns rows per table."""
    with ThreadPoolExecutor(len(TABLES)) as pool:
        loads = {table: pool.submit(load, table, data, executors=executors) for table in TABLES}
        return {table: running.result()["rows"] for table, running in loads.items()}


def example(name: str) -> dict[str, Any]:
    """An application of examples/tpch, with ``JAVA_OPTIONS``."""
    application: dict[str, Any] = yaml.safe_load((EXAMPLES / "applications" / f"{name}.yaml").read_text())
    return with_java_options(application)


def with_java_options(application: dict[str, Any]) -> dict[str, Any]:
    """The application, changed in place: ``JAVA_OPTIONS`` of driver and executors."""
    if JAVA_OPTIONS:
        for role in ("driver", "executor"):
            application["spec"][role]["javaOptions"] = " ".join(JAVA_OPTIONS)
    return application


def _set_input_folder(application: dict[str, Any], folder: Path) -> None:
    """Mount the generated files where the example mounts /tpch: the embedded nodes see this machine's folders."""
    for role in ("driver", "executor"):
        for volume in application["spec"][role]["template"]["spec"]["volumes"]:
            if volume["name"] == "input":
                volume["hostPath"]["path"] = str(folder)


def submit_join(oracle: Oracle, *, image: str = "", options: Sequence[str] = ()) -> JoinRun:
    """``colocation submit`` the join application, without its warm runs. ``image``: default the installation's."""
    application = example("join")
    del application["spec"]["arguments"]
    if image:
        application["spec"]["image"] = image
    output = _submit(application, options)
    return _join_run(result_of(output), output, oracle)


def submit_compared_join(oracle: Oracle) -> ComparedJoin:
    """``colocation submit`` the join application as it is."""
    output = _submit(example("join"))
    result = result_of(output)
    shuffled = result["shuffled"]
    return ComparedJoin(
        _join_run(result, output, oracle), result["seconds"],
        ShuffledRuns(shuffled["exchanges"], shuffled["seconds"], _is_right(shuffled, oracle)),
    )


def _submit(application: dict[str, Any], options: Sequence[str] = ()) -> str:
    application["metadata"]["name"] = f"tpch-join-{time.time_ns() // 1_000_000}"
    return run([COLOCATION, "submit", "-f", "-", *options], stdin=yaml.safe_dump(application)).stdout


def _join_run(result: dict[str, Any], output: str, oracle: Oracle) -> JoinRun:
    return JoinRun(
        exchanges=result["exchanges"], remote_bytes=result["remoteBytes"], first_seconds=result["firstSeconds"],
        answer_ok=_is_right(result, oracle), decision=decision_of(output), spark_version=result["sparkVersion"],
    )


def _is_right(result: dict[str, Any], oracle: Oracle) -> bool:
    """Whether the answers are DuckDB's."""
    return [result["q12"], result["threeWayCount"]] == [oracle.rows(Q12), oracle.rows(THREE_WAY_COUNT)[0][0]]


def result_of(output: str) -> dict[str, Any]:
    """The driver's result, which the command prints as one marked line.

    Raises:
        ValueError: there is no such line; the message holds the end of the output.
    """
    for line in reversed(output.splitlines()):
        if RESULT_MARK in line:
            result: dict[str, Any] = json.loads(line.split(RESULT_MARK, 1)[1])
            return result
    raise ValueError(f"no result in the output: {output[-2000:]}")


def decision_of(output: str) -> str:
    """The submitter's line with the decision and its reason."""
    return next((line.strip() for line in output.splitlines() if "colocate:" in line), "")
