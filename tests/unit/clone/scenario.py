"""A clone as a process of its own, and tables put on agents."""

import json
import os
import subprocess
import sys
from pathlib import Path

from colocation.model.agent import TableReport
from colocation.model.clone import CloneSource, CloneSpec
from colocation.storage.clone_reports import take_announced
from colocation.storage.inventory import Inventory
from colocation.storage.root import DataRoot
from tests.unit.agent.harness import ADMIN_TOKEN, AgentThread, Pki
from tests.unit.storage.tables import Table

BUCKET = 1


def put(agent: AgentThread, table: Table) -> None:
    """Publish a whole table on an agent."""
    with agent.client() as client:
        for path, content in table.contents.items():
            client.put_file(*table.path, path, content)
        client.put_manifest(*table.path, table.stored, table.manifest)


def clone_spec(tables: list[Table], agents: list[AgentThread], bandwidth: float | None = None) -> CloneSpec:
    """A clone of ``BUCKET`` onto node-3."""
    return CloneSpec(
        namespace="shop",
        group="sales",
        bucket=BUCKET,
        target="node-3",
        tables=tuple(table.reference for table in tables),
        sources=tuple(CloneSource(node=agent.settings.node, url=agent.url) for agent in agents),
        max_bandwidth_mib_per_second=bandwidth,
    )


def clone_environment(
    spec: CloneSpec | str, root: Path, pki: Pki, token: str = ADMIN_TOKEN
) -> dict[str, str]:
    """The environment of a clone's process."""
    (pki.ca.parent / "token").write_text(token)
    root.mkdir(exist_ok=True)
    return os.environ | {
        "CLONE_SPEC": spec if isinstance(spec, str) else json.dumps(spec.to_json_dict()),
        "COLOCATION_DATA_ROOT": str(root),
        "COLOCATION_TOKEN_DIRECTORY": str(pki.ca.parent),
    }


def start_clone(environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start the clone's process."""
    command = [sys.executable, "-m", "colocation.clone"]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def run_clone(environment: dict[str, str]) -> tuple[int, str]:
    """Run a clone; (exit code, standard error)."""
    with start_clone(environment) as process:
        _, errors = process.communicate(timeout=300)
    return process.returncode, errors


def report_on(root: Path, table: Table) -> TableReport:
    """What a node holds, as its agent reports after reading the clones' announcements."""
    data_root = DataRoot(root)
    try:
        take_announced(data_root)
        return Inventory(data_root).report([table.reference])[0]
    finally:
        data_root.close()
