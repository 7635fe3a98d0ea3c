"""Where things lie.

The cluster's state has one fixed place per machine, whatever checkout started it: so any checkout's `down` cleans what
another's killed run left behind. What is costly to make and safe to keep (binaries, images) is in the user's cache.
"""

import os
from pathlib import Path

STATE = Path("/var/lib/colocation-devcluster")
LOGS = STATE / "logs"
PKI = STATE / "pki"
CONFIG = STATE / "config"
REGISTRIES = CONFIG / "registries"
PROCESSES = STATE / "processes"
NODES = STATE / "nodes"
BIN = STATE / "bin"
LOADED_IMAGES = STATE / "loaded-images.json"
KEPT = STATE / "kept-by"
DISK_GIB = STATE / "disk-gib"
CLOCKS = STATE / "clocks"
KUBECONFIG = STATE / "admin.kubeconfig"

DATA_ROOT = Path("/var/lib/colocation")
PACKAGE = Path(__file__).resolve().parent


def cache() -> Path:
    """The folder for built binaries and images, outside of every checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "colocation-devcluster"
