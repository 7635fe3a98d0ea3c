"""The real operator as a process, with a ServiceAccount of its own, and what it costs."""

import math
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from benchmarks.control_plane_objects import SYSTEM
from colocation.manifests.holder_pod import HOLDER_ACCOUNT
from colocation.model.names import APP_NAME, TOKEN_AUDIENCE
from tests.integration.control_plane import ControlPlane, dying_with_us, free_ports

ACCOUNT = "colocation-operator"
OPERATOR_USER = f"system:serviceaccount:{SYSTEM}:{ACCOUNT}"
STOP_SECONDS = 30
_BUCKET = re.compile(r'^colocation_pass_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)


class OperatorProcess:
    """Starts and stops the operator.

    ``peak_rss_mib``: the most that it had at one time, its children included, of all runs that were stopped.
    ``started_at``: on the monotonic clock.
    """

    def __init__(self, environment: dict[str, str], health_port: int, log: Path) -> None:
        self.peak_rss_mib = 0
        self.started_at = 0.0
        self._environment = environment
        self._health_port = health_port
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, resync_seconds: int) -> None:
        """Start it."""
        environment = {**self._environment, "COLOCATION_RESYNC_SECONDS": str(resync_seconds)}
        command = dying_with_us([sys.executable, "-m", "colocation.controller"])
        self.started_at = time.monotonic()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def check(self) -> None:
        """Look whether it still runs, if it was started.

        Raises:
            RuntimeError: it ended by itself.
        """
        if self._process is not None and self._process.poll() is not None:
            code, self._process = self._process.returncode, None
            raise RuntimeError(f"the operator ended with {code}:\n{self._log.read_text()[-3000:]}")

    def stop(self) -> None:
        """End it, if it runs."""
        if self._process is None:
            return
        statuses = [(folder / "status").read_text() for folder in self._family()]
        kib = sum(int(found) for status in statuses for found in re.findall(r"VmHWM:\s+(\d+) kB", status))
        self.peak_rss_mib = max(self.peak_rss_mib, kib // 1024)
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(STOP_SECONDS)
        self._process = None

    def cpu_seconds(self) -> float:
        """Processor time so far, user and system, of children that have ended too."""
        stats = [(folder / "stat").read_text().rpartition(")")[2].split() for folder in self._family()]
        ticks = sum(int(field) for fields in stats for field in fields[11:15])
        return ticks / os.sysconf("SC_CLK_TCK")

    def pass_milliseconds(self) -> tuple[float | None, float | None]:
        """(median, 99th percentile) of the passes so far: the upper ends of the histogram's buckets that hold them.

        None: in the last bucket, which has no upper end.
        """
        with urllib.request.urlopen(f"http://127.0.0.1:{self._health_port}/metrics") as answer:
            buckets = [(float(end), float(count)) for end, count in _BUCKET.findall(answer.read().decode())]
        total = buckets[-1][1]
        median, high = (next(end for end, count in buckets if count >= total * part) for part in (0.5, 0.99))
        return _milliseconds(median), _milliseconds(high)

    def _family(self) -> list[Path]:
        """The folders below /proc of the process and of its descendants."""
        assert self._process is not None
        found = [Path(f"/proc/{self._process.pid}")]
        for folder in found:
            for children in folder.glob("task/*/children"):
                found += [Path(f"/proc/{child}") for child in children.read_text().split()]
        return found


def _milliseconds(seconds: float) -> float | None:
    return seconds * 1000 if math.isfinite(seconds) else None


@contextmanager
def running_operator(plane: ControlPlane, folder: Path, certificate: Path, log: Path) -> Iterator[OperatorProcess]:
    """An operator that may be started; it is ended when the context is left."""
    subject = f"--serviceaccount={SYSTEM}:{ACCOUNT}"
    for arguments in (
        ("create", "serviceaccount", ACCOUNT, "--namespace", SYSTEM),
        ("create", "clusterrolebinding", ACCOUNT, "--clusterrole=cluster-admin", subject),
        ("create", "serviceaccount", HOLDER_ACCOUNT, "--namespace", SYSTEM),
        ("create", "deployment", APP_NAME, "--image=operator", "--namespace", SYSTEM),
    ):
        done = plane.kubectl(*arguments)
        assert done.returncode == 0, done.stderr
    access = folder / "access"
    access.mkdir()
    (access / "ca.crt").write_bytes(certificate.read_bytes())
    (access / "token").write_text(_token(plane, "--audience", TOKEN_AUDIENCE))
    kubeconfig = yaml.safe_load(plane.kubeconfig.read_text())
    kubeconfig["users"][0]["user"] = {"token": _token(plane)}
    (folder / "operator.kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    health_port, snapshot_port, admin_port = free_ports(3)
    environment = {
        **os.environ,
        "KUBECONFIG": str(folder / "operator.kubeconfig"),
        "COLOCATION_NAMESPACE": SYSTEM,
        "COLOCATION_IMAGE": "colocation-operator:bench",
        "COLOCATION_TOKEN_DIRECTORY": str(access),
        "COLOCATION_HEALTH_PORT": str(health_port),
        "COLOCATION_SNAPSHOT_PORT": str(snapshot_port),
        "COLOCATION_ADMIN_PORT": str(admin_port),
    }
    operator = OperatorProcess(environment, health_port, log)
    try:
        yield operator
    finally:
        operator.stop()


def _token(plane: ControlPlane, *options: str) -> str:
    done = plane.kubectl("create", "token", ACCOUNT, "--namespace", SYSTEM, "--duration=2h", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
