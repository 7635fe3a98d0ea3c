"""One MERGE after the other next to the real operator: agents delete the replaced files.

``MERGES=120 pytest -s tests/spark/test_many_merges.py`` prints what disks, memory and etcd hold after each.
"""

import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.integration.control_plane import running_plane
from tests.integration.installation import LOADER, Installation, installed

pytestmark = [pytest.mark.spark, pytest.mark.deep]

NAMESPACE = "shop"
MERGES = os.environ.get("MERGES", "20")
COLLECT_SECONDS = 20
COLLECTED_SECONDS = 180
REPLICAS, NODES = 2, 3


def test_replaced_files_are_deleted(tmp_path: Path) -> None:
    """In the end the disks hold the files of the newest snapshot, and one manifest."""
    with running_plane() as plane, installed(plane, tmp_path, NODES) as installation:
        for name in ("COLOCATION_GARBAGE_GRACE_SECONDS", "COLOCATION_COLLECT_SECONDS"):
            installation.operator_environment[name] = str(COLLECT_SECONDS)
        installation.start_operator()
        installation.kubectl("create", "namespace", NAMESPACE)
        account = installation.folder / LOADER
        (account / "kubeconfig").write_bytes(plane.kubeconfig.read_bytes())
        merge(installation, [sys.executable, "-m", "tests.spark.merges_program", str(account), NAMESPACE, MERGES])
        snapshot = installation.read("ct", "t", NAMESPACE)["status"]["snapshot"]
        wanted = {"files": REPLICAS * snapshot["files"], "bytes": REPLICAS * snapshot["bytes"], "manifests": NODES}
        deadline = time.monotonic() + COLLECTED_SECONDS
        while stored(installation) != wanted:
            assert time.monotonic() < deadline, (stored(installation), wanted, snapshot)
            time.sleep(1)


def merge(installation: Installation, command: list[str]) -> None:
    with (installation.folder / "merges.log").open("w") as log:
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert running.stdout is not None
    for line in running.stdout:
        kept = {**resident(installation), "etcd": etcd_bytes(installation)}
        print(line.strip(), stored(installation), kept, flush=True)
    assert running.wait() == 0, (installation.folder / "merges.log").read_text()[-4000:]


def resident(installation: Installation) -> dict[str, int]:
    """Bytes of memory of the operator, and of the agents together (without nginx)."""
    found = {"operator": 0, "agents": 0}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, status = (process / "cmdline").read_text(), (process / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        if installation.operator is not None and process.name == str(installation.operator.pid):
            found["operator"] = _resident_bytes(status)
        elif f"--data-root\0{installation.folder}/" in command:
            found["agents"] += _resident_bytes(status)
    return found


def _resident_bytes(status: str) -> int:
    [kib] = re.findall(r"VmRSS:\s+(\d+) kB", status)
    return 1024 * int(kib)


def etcd_bytes(installation: Installation) -> int:
    """What etcd's file holds, without the room in it that is free."""
    with urllib.request.urlopen(f"{installation.plane.etcd_url}/metrics", timeout=30) as answer:
        [size] = re.findall(r"^etcd_mvcc_db_total_size_in_use_in_bytes (\S+)", answer.read().decode(), re.M)
    return int(float(size))


def stored(installation: Installation) -> dict[str, int]:
    """What all nodes hold."""
    roots = [installation.data_root(node) for node in installation.nodes]
    files = [path for root in roots for path in root.glob("*/*/data/**/*.parquet")]
    manifests = [path for root in roots for path in root.glob("*/*/manifests/*")]
    sizes = [size for path in files if (size := size_of(path))]
    return {"files": len(sizes), "bytes": sum(sizes), "manifests": len(manifests)}


def size_of(path: Path) -> int:
    """Zero: it was deleted meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
