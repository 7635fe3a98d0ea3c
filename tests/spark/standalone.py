"""A Spark standalone cluster whose workers pose as Kubernetes nodes: own address, own NODE_NAME, own data root."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.integration.control_plane import dying_with_us
from tests.spark.class_archive import SPARK_HOME

MASTER_HOST = "127.0.0.1"
NODE_VARIABLE = "SPARK_EXECUTOR_ATTRIBUTE_NODE_NAME"


def _start(log: Path, environment: dict[str, str], *command: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            dying_with_us([str(SPARK_HOME / "bin" / "spark-class"), *command]),
            env={**os.environ, "SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait_for(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """The pattern's first group, as soon as it stands in the log."""
    with log.open() as lines:
        text = ""
        while (found := re.search(pattern, text)) is None:
            text += lines.read()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.1)
                raise RuntimeError(f"{process.args!r} ended: {log.read_text()[-2000:]}")
    return found[1]


@contextlib.contextmanager
def standalone_cluster(folder: Path, nodes: tuple[str, ...], memory: str = "700m") -> Iterator[str]:
    """The master's URL of a cluster with one worker of one core and so much memory per node."""
    processes: list[subprocess.Popen[bytes]] = []
    small = {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(folder / "work"),
    }
    try:
        log = folder / "master.log"
        master = "org.apache.spark.deploy.master.Master"
        processes.append(_start(log, small, master, "--host", MASTER_HOST, "--port", "0", "--webui-port", "0"))
        url = _wait_for(log, r"Starting Spark master at (spark://\S+)", processes[0])
        for number, node in enumerate(nodes, start=1):
            worker = ["org.apache.spark.deploy.worker.Worker", "--host", f"127.0.0.{10 + number}", "--webui-port", "0",
                      "--cores", "1", "--memory", memory, url]
            processes.append(_start(folder / f"{node}.log", {**small, NODE_VARIABLE: node}, *worker))
        for node, process in zip(nodes, processes[1:], strict=True):
            _wait_for(folder / f"{node}.log", r"(Successfully registered with master)", process)
        yield url
    finally:
        for process in reversed(processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            process.wait(timeout=20)


def executors_below(pid: int, application: str = "") -> Iterator[int]:
    """The processes below this one that are executors (of this application)."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{child}/cmdline").read_text()
                if "CoarseGrainedExecutorBackend" in command and application in command:
                    yield child
            yield from executors_below(child, application)
