"""Python environments of other people's tools, for tests that run these: outside of the checkout, one per lock."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
INSTALL_SECONDS = 500


def environment(name: str) -> Path:
    """The folder of programs of the packages in ``locks/<name>.txt``; installed when it is first asked for."""
    lock = CHECKOUT / "locks" / f"{name}.txt"
    tools = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "colocation" / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    home = tools / f"{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    with (tools / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            _uv("venv", "--python", sys.executable, str(home))
            _uv("pip", "install", "--require-hashes", "--python", str(home / "bin" / "python"), "-r", str(lock))
            (home / "complete").touch()
    return home / "bin"


def _uv(*arguments: str) -> None:
    done = subprocess.run(
        [str(UV), "--quiet", *arguments], capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS
    )
    assert done.returncode == 0, done.stderr
