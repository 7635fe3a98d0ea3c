"""The kubelet sets a few kernel parameters of the whole machine: `down` gives them back their values."""

import json
from pathlib import Path

from devcluster import paths

CHANGED_BY_KUBELET = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
SAVED = paths.STATE / "sysctls.json"
PROC_SYS = Path("/proc/sys")


def save() -> None:
    """Remember the machine's values before the first kubelet starts."""
    values = {name: (PROC_SYS / name).read_text().strip() for name in CHANGED_BY_KUBELET}
    SAVED.write_text(json.dumps(values))


def restore() -> None:
    """Write back what was saved and has changed."""
    if not SAVED.exists():
        return
    for name, value in json.loads(SAVED.read_text()).items():
        if (PROC_SYS / name).read_text().strip() != value:
            (PROC_SYS / name).write_text(value)
