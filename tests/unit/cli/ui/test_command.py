"""`colocation ui` as a process: it prints its address, and ends at once by a signal, whatever it is doing."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import pytest

from tests.unit.cli.conftest import KUBECONFIG, FakeCluster, Run

DEADLINE_SECONDS = 60
COMMAND = [sys.executable, "-c", "from colocation.cli.main import main; main()", "ui"]


@contextmanager
def running(tmp_path: Path, port: int, ignore_interrupt: bool) -> Iterator[subprocess.Popen[str]]:
    """The command with an API server at ``port``; it does not outlive the test."""
    (tmp_path / "kubeconfig").write_text(KUBECONFIG % port)
    process = subprocess.Popen(
        [*COMMAND, "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
        env={"KUBECONFIG": str(tmp_path / "kubeconfig"), "PYTHONPATH": ":".join(sys.path), "PATH": ""},
        preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignore_interrupt else None,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(DEADLINE_SECONDS)


def address(process: subprocess.Popen[str]) -> SplitResult:
    assert process.stdout
    found = urlsplit(process.stdout.readline().strip())
    assert found.hostname == "127.0.0.1"
    return found


@pytest.mark.parametrize(
    ("number", "ignore_interrupt"),
    [
        pytest.param(signal.SIGTERM, True, id="SIGTERM, in the background of a shell"),
        pytest.param(signal.SIGINT, False, id="Ctrl-C"),
    ],
)
def test_it_ends_when_a_signal_asks_for_it(tmp_path: Path, number: signal.Signals, ignore_interrupt: bool) -> None:
    """With connections open: a silent one, and one whose answer waits for an API server that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as api, running(tmp_path, api.getsockname()[1], ignore_interrupt) as ui:
        url = address(ui)
        where = (url.hostname, url.port)
        with socket.create_connection(where), socket.create_connection(where) as waiting:
            waiting.sendall(f"GET {url.path}api/overview HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode())
            api.settimeout(DEADLINE_SECONDS)
            with api.accept()[0]:
                ui.send_signal(number)
                assert ui.wait(DEADLINE_SECONDS) == 0


def test_a_port_that_is_taken_is_an_error(run: Run, cluster: FakeCluster) -> None:
    """Exit code 1, and which port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("ui", "--no-browser", "--port", str(port))
    assert done.exit_code == 1
    assert f"port {port} cannot be used: Address already in use" in done.stderr
