"""The example's join application with one of these tests' own programs."""

from pathlib import Path
from typing import Any

from demo import workload

PROGRAMS = Path(__file__).parent / "programs"


def application(name: str, program: str) -> dict[str, Any]:
    """``program`` is a file of the folder ``programs``, which the driver sees."""
    base = workload.example("join")
    base["metadata"]["name"] = name
    spec = base["spec"]
    spec["mainApplicationFile"] = f"local:///opt/programs/{program}"
    pod = spec["driver"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"] = [{"name": "programs", "mountPath": "/opt/programs", "readOnly": True}]
    pod["volumes"] = [{"name": "programs", "hostPath": {"path": str(PROGRAMS), "type": "Directory"}}]
    return base
