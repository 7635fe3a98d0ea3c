"""Real file systems that are full, read-only, unmounted, swapped or failing, in a mount namespace of their own.

Needs unshare(1), and root or user namespaces; the namespace goes with its process, so that a test that is killed leaves
nothing.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import contextlib, json, os, shutil, subprocess, sys
from pathlib import Path
from colocation.storage.disk_health import DiskHealth, WrongDisk, check_disk
from colocation.storage.incoming import IncomingFile
from colocation.storage.ledger import FileIdentity, LedgerEntry
from colocation.storage.paths import TablePath
from colocation.storage.root import UPLOADS, DataRoot

table, entry = TablePath("shop", "orders-0a1b2c3d"), LedgerEntry(FileIdentity(1, 2, 3), "aa", 1.0)
folder = Path(sys.argv[1])
found = {}

def sh(*command):
    subprocess.run(command, check=True)

def look(name, required=False):
    root = DataRoot(folder)
    health = DiskHealth(root, "node-1", required)
    health.probe()
    found[name] = [health.disk_id, health.fault.reason if health.fault else None]
    return root, health

look("unmounted, a mount point is required", True)
sh("mount", "-t", "tmpfs", "-o", "size=2m", "one", str(folder))
root, health = look("mounted", True)
with contextlib.suppress(OSError, Exception), IncomingFile(root, UPLOADS, "big") as file:
    for _ in range(100):
        file.write(bytes(1 << 16))
health.probe()
found["full"] = [health.disk_id, health.fault.reason]
(folder / ".incoming/uploads/big").unlink()
health.probe()
found["with room again"] = [health.disk_id, health.fault and health.fault.reason]
root.ledger.record(table, "data/before", entry)
killed = folder.with_name("killed")
shutil.copytree(folder / ".ledger", killed)
root.close()
shutil.copytree(killed, folder / ".ledger", dirs_exist_ok=True)
sh("mount", "-o", "remount,ro", str(folder))
root, health = look("begun on a read-only disk")
found["it can be read"] = [str(one) for one in root.tables()]
root.ledger.record(table, "data/meanwhile", entry)
found["what was hashed meanwhile is known"] = sorted(root.ledger.entries(table))
root.close()
sh("mount", "-o", "remount,rw", str(folder))
root, health = look("writable again")
sh("mount", "-t", "tmpfs", "-o", "size=2m", "two", str(folder))
health.probe()
found["another one mounted over it"] = [health.disk_id, health.fault.reason, health.needs_restart]
try:
    check_disk(folder, health.disk_id)
except WrongDisk as error:
    found["a clone's error"] = str(error)
found["and writes nothing"] = os.listdir(folder)
print(json.dumps(found))
"""
A_DISK_THAT_FAILS = """
import json, sys
from pathlib import Path
from colocation.model.agent import AgentReport, CloneProgress
from colocation.agent.inventory_answers import Answers
from colocation.agent.conversation import Conversation
from colocation.storage import incoming
from colocation.storage.clone_reports import announce, write_progress
from colocation.storage.disk_health import DiskHealth
from colocation.storage.inventory import Inventory, hash_unverified, look, scrub_batch, sweep
from colocation.storage.quarantine import QuarantinePurge
from colocation.storage.root import DataRoot
from colocation.storage.verification import unlimited
from devcluster import disks
from tests.unit.storage.tables import data_path, make_table, on_disk, publish, publish_table

node = Path(sys.argv[1])
disks.attach(node, 1)
data = node / disks.DATA
data.mkdir()
table = make_table({data_path(bucket, partition="day=1"): b"content" * 1000 for bucket in range(2)})
found = {}

class Agent:
    def __init__(self):
        self.root = DataRoot(data)
        self.health = DiskHealth(self.root, "node-1")
        self.inventory = Inventory(self.root)
        self.quarantine = QuarantinePurge(self.root, self.inventory.live_digests)
        self.health.probe()

    def work(self):
        self.health.probe()
        sweep(self.inventory)
        look(self.inventory, unlimited)
        hash_unverified(self.inventory, unlimited)
        scrub_batch(self.inventory, 0.0, unlimited)
        incoming.remove_stale(self.root)
        self.quarantine.run()

    def tell(self, name):
        answers = Answers("node-1", self.root, self.inventory, Conversation(lambda: 0.0), self.health)
        report = answers.unasked((table.reference,), True)
        [of_table] = report.tables
        states = {bucket: one.state for bucket, one in of_table.buckets.items()}
        found[name] = [report.disk.reason, of_table.manifest_present, states, len(report.clones)]

agent = Agent()
publish_table(agent.root, table)
clone = CloneProgress(namespace="a", group="b", bucket=0, bytes_done=0, bytes_total=9, updated_at="")
write_progress(agent.root, clone)
agent.work()
agent.tell("well")
announce(agent.root, table.path, {})
disks.fail(node)
agent.work()
agent.tell("failing")
try:
    publish(agent.root, table.path, data_path(1, load="2"), b"more")
except OSError as error:
    found["a load's error"] = error.strerror
agent.root.close()
again = Agent()
again.work()
again.tell("started on a failing disk")
again.root.close()
disks.detach(node)
disks.attach(node, 1)
after = Agent()
after.work()
after.tell("mounted again")
found["the same disk"] = after.health.disk_id == agent.health.disk_id
found["whole"] = [on_disk(after.root, table.path, path).read_bytes() == table.contents[path] for path in table.contents]
print(json.dumps(found))
"""


def run_in_namespace(folder: Path, program: str = PROGRAM) -> dict[str, Any]:
    """What the program finds on the file systems that it mounts."""
    unshare = shutil.which("unshare")
    assert unshare, "these tests need unshare(1) of util-linux"
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    ended = subprocess.run(
        [unshare, *as_root, "--mount", "--propagation", "private", sys.executable, "-c", program, str(folder)],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_what_happens_to_real_disks(tmp_path: Path) -> None:
    """Each state has its word; a disk keeps its id; nothing is written to the wrong one."""
    shown = run_in_namespace(tmp_path)
    disk, _ = shown["mounted"]
    assert shown == {
        "unmounted, a mount point is required": ["", "DiskMissing"],
        "mounted": [disk, None],
        "full": [disk, "DiskFull"],
        "with room again": [disk, None],
        "begun on a read-only disk": [disk, "DiskReadOnly"],
        "it can be read": [],
        "what was hashed meanwhile is known": ["data/before", "data/meanwhile"],
        "writable again": [disk, None],
        "another one mounted over it": [disk, "DiskMissing", True],
        "a clone's error": shown["a clone's error"],
        "and writes nothing": [],
    }
    assert "without a marker" in shown["a clone's error"]
    assert not (tmp_path / "colocation.json").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="a loop device needs root")
def test_a_disk_that_fails_is_reported_and_keeps_what_was_committed(tmp_path: Path) -> None:
    """Nothing that the agent does there ends it. Mounted again, as after a power cut, a clone's progress is lost: none
    synced it.
    """
    complete = {"0": "complete", "1": "complete"}
    assert run_in_namespace(tmp_path, A_DISK_THAT_FAILS) == {
        "well": ["", True, complete, 1],
        "failing": ["DiskFailing", False, {}, 0],
        "a load's error": "Input/output error",
        "started on a failing disk": ["DiskFailing", False, {}, 0],
        "mounted again": ["", True, complete, 0],
        "the same disk": True,
        "whole": [True, True],
    }
