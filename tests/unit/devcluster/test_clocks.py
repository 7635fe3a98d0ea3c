"""A node's own wall clock: which containers get it, and what their programs see when it steps."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devcluster import clocks
from devcluster.clock import container
from devcluster.errors import DevclusterError

NAMESPACE = "colocation-system"
PROGRAM = """
import datetime, sys, time
for line in sys.stdin:
    time.sleep(0.01)
    print(time.time(), datetime.datetime.now(datetime.UTC).timestamp(), time.monotonic(), flush=True)
"""


def specification(kind: str = "container", namespace: str = NAMESPACE) -> dict[str, Any]:
    """What containerd writes of an agent's container, but for what does not matter here."""
    return {
        "ociVersion": "1.0.2-dev",
        "process": {
            "user": {"uid": 10440, "gid": 10440},
            "args": ["/opt/colocation/bin/python", "-m", "colocation.agent"],
            "env": ["PATH=/opt/colocation/bin:/usr/bin", "NODE_NAME=node-1"],
            "cwd": "/",
            "noNewPrivileges": True,
        },
        "root": {"path": "rootfs", "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
            {
                "destination": "/var/lib/colocation", "type": "bind", "source": "/var/lib/colocation",
                "options": ["rbind", "rslave", "rw"],
            },
        ],
        "annotations": {
            "io.kubernetes.cri.container-name": "agent",
            "io.kubernetes.cri.container-type": kind,
            "io.kubernetes.cri.sandbox-namespace": namespace,
        },
        "linux": {"cgroupsPath": "/colocation-devcluster/node-1/pod1/agent", "namespaces": [{"type": "pid"}]},
    }  # fmt: skip


def test_a_container_gets_its_nodes_clock() -> None:
    """A mount that it cannot write to, and the library before all others; the rest stays as it was."""
    before = specification()
    after = container.with_clock(before, Path("/nodes/node-1/clock"), NAMESPACE)
    assert after["process"]["env"] == [
        *before["process"]["env"],
        "LD_PRELOAD=/node-clock/wall_clock.so",
        "WALL_CLOCK_AHEAD_SECONDS=/node-clock/ahead-seconds",
    ]
    [mount] = after["mounts"][len(before["mounts"]) :]
    assert mount == {"destination": "/node-clock", "type": "bind", "source": "/nodes/node-1/clock",
                     "options": ["bind", "ro", "nosuid", "nodev"]}  # fmt: skip
    after["process"]["env"], after["mounts"] = before["process"]["env"], before["mounts"]
    assert after == before == specification()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(specification(namespace="demo"), id="of another namespace, as Spark's"),
        pytest.param(specification("sandbox"), id="the pod's sandbox"),
        pytest.param({"process": {"args": ["sh"]}}, id="of no pod"),
    ],
)
def test_other_containers_stay_as_they_are(other: dict[str, Any]) -> None:
    """Byte for byte."""
    assert container.with_clock(other, Path("/clock"), NAMESPACE) is other


def test_processes_that_run_see_their_nodes_clock_step(tmp_path: Path) -> None:
    """Ahead, behind and back; the monotonic clock goes on, and sleeping works."""
    made, node = tmp_path / "made", tmp_path / "node-1"
    clocks.make(NAMESPACE, made)
    clocks.attach(node, made)
    clock = node / clocks.FOLDER
    environment = {"LD_PRELOAD": clock / container.LIBRARY, "WALL_CLOCK_AHEAD_SECONDS": clock / container.AHEAD}
    command = ["env", *(f"{name}={value}" for name, value in environment.items()), sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin and program.stdout
        seen = []
        for ahead_seconds in (0, 1200, -1800, 0):
            clocks.step(node, ahead_seconds)
            clocks.attach(node, made)  # as when the node is started again
            program.stdin.write("look\n")
            program.stdin.flush()
            seen.append([float(word) for word in program.stdout.readline().split()])
        program.stdin.close()
    steps = [
        [round((after - before) / 10) * 10 for before, after in zip(one, other, strict=True)]
        for one, other in itertools.pairwise(seen)
    ]
    assert steps == [[1200, 1200, 0], [-3000, -3000, 0], [1800, 1800, 0]]


def test_runc_is_called_for_a_container_after_its_specification_was_changed(tmp_path: Path) -> None:
    """With the same arguments, and for anything else at once."""
    bundle, node = tmp_path / "bundle", tmp_path / "node"
    for folder in (bundle, node / "clock", tmp_path / "bin"):
        folder.mkdir(parents=True)
    path = bundle / "config.json"
    path.write_text(json.dumps(specification()))
    for name, text in (("runc", '#!/bin/sh\necho "$@"\n'), ("with-clock", clocks.runc(node / "clock", NAMESPACE))):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}

    def call(*words: str) -> str:
        command = [str(tmp_path / "bin" / "with-clock"), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    words = ("--root", "/run/runc", "--log", "/log.json")
    assert call(*words, "state", "c1") == "--root /run/runc --log /log.json state c1\n"
    assert json.loads(path.read_text()) == specification()
    assert call(*words, "create", "--bundle", str(bundle), "c1").endswith(f"create --bundle {bundle} c1\n")
    assert json.loads(path.read_text()) == container.with_clock(specification(), node / "clock", NAMESPACE)


def test_a_cluster_without_clocks_reports_it(tmp_path: Path) -> None:
    """Its containers are made by runc itself, and no process of it follows one."""
    assert clocks.runc_of(tmp_path) == "runc"
    assert not clocks.is_followed_by(os.getpid())
    with pytest.raises(DevclusterError, match="no clocks of their own"):
        clocks.step(tmp_path, 60)
