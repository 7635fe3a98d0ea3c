"""A command that is ended from outside reports what became of its work."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.unit.cli.conftest import KUBECONFIG

DEADLINE_SECONDS = 60
GROUPS = [sys.executable, "-c", "from colocation.cli.main import main; main()", "groups"]


def test_sigterm_ends_a_command_as_ctrl_c_does(tmp_path: Path) -> None:
    """As `timeout`, a CI job and a pod's end send it: while the API server does not answer."""
    kubeconfig = tmp_path / "kubeconfig"
    with socket.create_server(("127.0.0.1", 0)) as api:
        kubeconfig.write_text(KUBECONFIG % api.getsockname()[1])
        environment = {"KUBECONFIG": str(kubeconfig), "PYTHONPATH": ":".join(sys.path), "PATH": ""}
        process = subprocess.Popen(GROUPS, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            api.settimeout(DEADLINE_SECONDS)
            with api.accept()[0]:
                process.send_signal(signal.SIGTERM)
                _, said = process.communicate(timeout=DEADLINE_SECONDS)
        finally:
            process.kill()
    assert (process.returncode, said) == (1, "error: interrupted; nothing was changed\n")
