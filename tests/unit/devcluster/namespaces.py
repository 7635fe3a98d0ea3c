"""Programs in a namespace of their own: nothing stays mounted or connected, whatever ends the test."""

import subprocess
import sys

from devcluster import packages

NETWORK = ("--net",)
MOUNTS = ("--mount", "--propagation", "private")


def shown(namespace: tuple[str, ...], program: str, *arguments: str) -> list[str]:
    """The lines that a Python program prints in a new namespace, NETWORK or MOUNTS; installs what it may need there."""
    packages.ensure(packages.CLUSTER)
    command = ["unshare", *namespace, sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
