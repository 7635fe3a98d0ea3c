"""Gives a container its node's clock: run before ``runc create``, it changes the container's ``config.json``.

It is run on its own (``python -I``), so it imports nothing of ours.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MOUNT_POINT = "/node-clock"
"""In the container."""
LIBRARY, AHEAD = "wall_clock.so", "ahead-seconds"
"""In the node's folder: what is preloaded, and by how many seconds the wall clock is ahead: an int64."""
ANNOTATIONS = "io.kubernetes.cri"
"""Prefix of what containerd notes of a pod's containers."""


def with_clock(specification: dict[str, Any], clock: Path, namespace: str) -> dict[str, Any]:
    """The container's specification (OCI's ``config.json``), with the clock in it if it is of a pod of this namespace.

    A pod's sandbox stays as it is: its program asks for no time.
    """
    noted = specification.get("annotations", {})
    is_container = noted.get(f"{ANNOTATIONS}.container-type") == "container"
    if not is_container or noted.get(f"{ANNOTATIONS}.sandbox-namespace") != namespace:
        return specification
    process = specification["process"]
    variables = [f"LD_PRELOAD={MOUNT_POINT}/{LIBRARY}", f"WALL_CLOCK_AHEAD_SECONDS={MOUNT_POINT}/{AHEAD}"]
    options = ["bind", "ro", "nosuid", "nodev"]
    mount = {"destination": MOUNT_POINT, "type": "bind", "source": str(clock), "options": options}
    return {
        **specification,
        "process": {**process, "env": [*process.get("env", ()), *variables]},
        "mounts": [*specification.get("mounts", ()), mount],
    }


def main(arguments: Sequence[str]) -> None:
    """``CLOCK NAMESPACE`` and the arguments of ``runc create``."""
    clock, namespace, *words = arguments
    path = Path(words[words.index("--bundle") + 1], "config.json")
    specification = with_clock(json.loads(path.read_text()), Path(clock), namespace)
    path.write_text(json.dumps(specification))


if __name__ == "__main__":
    main(sys.argv[1:])
