"""Running other programs and waiting for things, with errors that say what was run."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from devcluster.errors import DevclusterError
from devcluster.progress import tail

POLL_SECONDS = 0.25


def run(*command: str | Path, stdin: str | None = None) -> str:
    """Run a program to its end and return what it printed; its stderr becomes the error's message."""
    arguments = [str(argument) for argument in command]
    result = subprocess.run(arguments, input=stdin, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise DevclusterError(f"`{' '.join(arguments)}` failed: {(result.stderr or result.stdout).strip()}")
    return result.stdout


def succeeds(*command: str | Path) -> bool:
    """Whether a program ends with exit code 0."""
    return subprocess.run([str(argument) for argument in command], capture_output=True, check=False).returncode == 0


def wait_until(what: str, condition: Callable[[], bool], deadline_seconds: float, log: Path | None = None) -> None:
    """Poll until the condition holds; at the deadline fail with the end of the responsible program's log."""
    deadline = time.monotonic() + deadline_seconds
    while not condition():
        if time.monotonic() > deadline:
            evidence = f"; the end of {log}:\n{tail(log)}" if log else ""
            raise DevclusterError(f"{what}: not within {deadline_seconds:.0f} s{evidence}")
        time.sleep(POLL_SECONDS)
