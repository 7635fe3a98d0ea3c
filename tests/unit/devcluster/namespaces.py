"""Programs in a namespace of their own: nothing stays mounted or connected, whatever ends the test."""

import subprocess
import sys

NETWORK = ("--net",)
MOUNTS = ("--mount", "--propagation", "private")


def shown(namespace: tuple[str, ...], program: str, *arguments: str) -> list[str]:
    """The lines that a Python program prints in a new namespace, NETWORK or MOUNTS."""
    command = ["unshare", *namespace, sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
