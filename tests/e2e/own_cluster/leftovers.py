"""What a removal leaves in the cluster: objects with our name, and marks on nodes."""

import json
import subprocess
import time

DOCUMENTED = frozenset(
    {
        "customresourcedefinition.apiextensions.k8s.io/colocatedtables.colocation.dev",
        "customresourcedefinition.apiextensions.k8s.io/colocationgroups.colocation.dev",
        "namespace/colocation-system",
    }
)
"""docs/how-to/install.md, Remove."""
PASSING = ("certificatesigningrequest", "event", "lease.coordination.k8s.io/colocation-operator", "apiservice")
"""Other kinds; requests for certificates and events, which Kubernetes removes within hours."""
SETTLE_SECONDS = 120
"""Pods end, and what they own goes after them."""


def unexpected(documented: frozenset[str] = DOCUMENTED) -> list[str]:
    """What the pages do not tell of: objects that are called after us, of every kind, and marks of ours on nodes."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        left = [one for one in _everything() if one not in documented]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(5)


def _everything() -> list[str]:
    kinds = ",".join(_kubectl("api-resources", "--verbs=list", "-o", "name").split())
    names = _kubectl("get", kinds, "--all-namespaces", "--ignore-not-found", "-o", "name").split()
    ours = {name for name in names if "colocat" in name and not name.startswith(PASSING)}
    return sorted(ours) + _marked_nodes()


def _marked_nodes() -> list[str]:
    marked = []
    for node in json.loads(_kubectl("get", "nodes", "-o", "json"))["items"]:
        marks = {**node["metadata"].get("labels", {}), **node["metadata"].get("annotations", {})}
        marked += [f"{node['metadata']['name']}: {name}" for name in marks if "colocation.dev/" in name]
    return marked


def _kubectl(*arguments: str) -> str:
    return subprocess.run(["kubectl", *arguments], capture_output=True, text=True, check=True).stdout
