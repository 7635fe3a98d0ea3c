"""Commands as a user types them, with errors that show what was run and what it said."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
COLOCATION = str(Path(sys.executable).with_name("colocation"))


class CommandFailed(RuntimeError):
    """A command exited with another code than was allowed."""


def run(command: Sequence[str], *, allowed: Sequence[int] = (0,), stdin: str | None = None,
        timeout_seconds: float = 900) -> subprocess.CompletedProcess[str]:
    """Run a command and return its output as text.

    Raises:
        CommandFailed: its exit code is not among ``allowed``; the message holds the end of its output.
    """
    done = subprocess.run(list(command), input=stdin, text=True, capture_output=True, timeout=timeout_seconds,
                          check=False, cwd=REPOSITORY, env=os.environ)
    if done.returncode not in allowed:
        said = done.stdout[-4000:] + done.stderr[-4000:]
        raise CommandFailed(f"{' '.join(command)} exited with {done.returncode}\n{said}")
    return done


def kubectl(*arguments: str, stdin: str | None = None, allowed: Sequence[int] = (0,)) -> str:
    """The standard output of a kubectl command."""
    return run(["kubectl", *arguments], stdin=stdin, allowed=allowed).stdout


def kubectl_json(*arguments: str) -> dict[str, Any]:
    """The object or list that ``kubectl … -o json`` prints."""
    value: dict[str, Any] = json.loads(kubectl(*arguments, "-o", "json"))
    return value
