"""What the looks make of the API server's objects and of the disks."""

import datetime
import errno
import os
from pathlib import Path
from typing import IO, Any

import pytest

from colocation.manifests.clone_job import clone_job
from colocation.model.names import LEASE_NAME
from colocation.model.table import Column
from colocation.model.table_manifest import DataFile, TableManifest
from devcluster import node as nodes
from devcluster import paths
from tests.support.manifests import encode_manifest
from tests.unit.manifests.test_clone_job import SETTINGS, SPEC

from . import cluster_view
from .cluster_view import Machinery, is_over, target_of
from .disks import Disks, unplaced

UID = "0a1b2c3d-0000-0000-0000-000000000000"


def test_a_clones_target_is_read_from_its_job() -> None:
    """As the operator writes it."""
    job = clone_job("clone-x", SPEC, None, 0, SETTINGS)
    assert target_of(job) == SPEC.target
    assert not is_over(job)
    assert is_over({**job, "status": {"conditions": [{"type": "Complete", "status": "True"}]}})


def test_wanted_replicas_are_looked_for_on_the_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, cut, changed, gone, or on a node that is away."""
    monkeypatch.setattr(paths, "NODES", tmp_path)
    file = DataFile(path="data/part=1/x_00000.parquet", bucket=0, partition={"part": "1"}, rows=1, bytes=4,
                    sha256="88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589")  # fmt: skip
    manifest = TableManifest(namespace="chaos", table="orders", uid=UID, snapshot_id=1, buckets=1, files=(file,),
                             columns=(Column(name="key", type="bigint"),), bucketed_by=("key",))  # fmt: skip
    digest, stored = encode_manifest(manifest)
    table = {"metadata": {"name": "orders", "uid": UID}, "status": {"snapshot": {"manifest": f"sha256:{digest}"}}}
    spec = {"buckets": 1, "replicas": 2}
    group = {"spec": spec, "status": {"backendsPerBucketSeq": [["node-1", "node-2"]]}}
    for node in ("node-1", "node-2"):
        folder = tmp_path / node / "disk" / "data" / "chaos" / "orders-0a1b2c3d"
        (folder / "data" / "part=1").mkdir(parents=True)
        (folder / file.path).write_bytes(b"abcd")
        (folder / "manifests").mkdir()
        (folder / "manifests" / f"{digest}.json.zst").write_bytes(stored)
    disks, both = Disks(), {"node-1", "node-2"}
    assert disks.missing(group, [table], both) == [] and disks.holders(table, file) == sorted(both)
    assert disks.missing(group, [table], {"node-1"}) == ["orders bucket 0 on node-2: the node is away"]
    short: dict[str, Any] = {"spec": spec, "status": {"backendsPerBucketSeq": [["node-1"]]}}
    assert disks.missing(short, [table], both) == ["bucket 0 is on 1 of 2 nodes"]
    assert disks.missing({"spec": spec}, [], both) == ["bucket 0 is on 0 of 2 nodes"]
    stray = folder / "manifests" / f"{digest}.json.zst"
    stray.rename(tmp_path / "kept")
    assert disks.missing(group, [table], both) == [f"orders on node-2: no manifest {digest[:12]}"]
    (tmp_path / "kept").rename(stray)
    path = disks.path("node-1", table, file)
    path.write_bytes(b"abcX")
    assert disks.missing(group, [table], both) == []
    assert Disks(is_thorough=True).missing(group, [table], both) == ["orders bucket 0 on node-1: another content"]
    disks.damaged.add(path)
    assert disks.missing(group, [table], both) == ["orders bucket 0 on node-1: another content"]
    path.write_bytes(b"ab")
    assert disks.missing(group, [table], both) == ["orders bucket 0 on node-1: 2 bytes of 4"]
    path.unlink()
    assert disks.missing(group, [table], both) == ["orders bucket 0 on node-1: no file"]
    monkeypatch.setattr(Path, "open", fail_on_node_1)
    assert disks.missing(group, [table], both) == ["orders bucket 0 on node-1: the disk reports: Input/output error"]
    assert disks.holders(table, file) == ["node-2"]


@pytest.mark.parametrize(
    ("replicas", "row", "missing", "expected"),
    [
        pytest.param(2, ["node-1", "node-2"], 0, 0, id="as wanted"),
        pytest.param(3, ["node-1", "node-2"], 0, 1, id="raised: the operator adds one while those of before serve"),
        pytest.param(3, ["node-1"], 1, 0, id="fewer than any spec ever wanted"),
    ],
)
def test_a_replica_that_is_still_to_be_placed_is_not_missing(
    replicas: int, row: list[str], missing: int, expected: int
) -> None:
    """A group may be stable without it, as its map does not name it yet."""
    group = {"spec": {"buckets": 1, "replicas": replicas}, "status": {"backendsPerBucketSeq": [row]}}
    assert len(Disks().missing(group, [], row)) == missing
    assert unplaced(group) == [f"bucket 0 is on 2 of {replicas} nodes"] * expected


def fail_on_node_1(path: Path, mode: str) -> IO[Any]:
    """As ``Path.open``, where one node's disk fails."""
    if "node-1" in path.parts:
        raise OSError(errno.EIO, "Input/output error")
    return os.fdopen(os.open(path, os.O_RDONLY), mode)


@pytest.mark.parametrize(
    ("renewed_seconds_ago", "fresh"),
    [
        pytest.param(1, True, id="just now"),
        pytest.param(60, False, id="the operator is silent, or its clock is behind"),
        pytest.param(-10, True, id="its clock is ahead by less than readers allow"),
        pytest.param(-60, False, id="its clock is further ahead"),
    ],
)
def test_verdicts_are_fresh_as_readers_see_it(
    renewed_seconds_ago: int, fresh: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the time of the Lease and this machine's clock."""
    renewed = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=renewed_seconds_ago)
    time = renewed.isoformat(timespec="microseconds").replace("+00:00", "Z")
    lease = {"kind": "Lease", "metadata": {"name": LEASE_NAME}, "spec": {"renewTime": time}}
    monkeypatch.setattr(cluster_view, "get", lambda *_: [lease])
    monkeypatch.setattr(nodes, "known", list)
    assert cluster_view.machinery() == Machinery(fresh, {}, ())


def test_what_groups_depend_on_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is not Ready, one without an object, an agent that is not ready, a clone that runs."""
    ready = {"type": "Ready", "status": "True"}
    objects = [
        {"kind": "Node", "metadata": {"name": "node-1"}, "status": {"conditions": [ready]}},
        {"kind": "Node", "metadata": {"name": "node-2"}, "status": {"conditions": [{**ready, "status": "Unknown"}]}},
        {"kind": "DaemonSet", "metadata": {"name": "agent"},
         "status": {"desiredNumberScheduled": 3, "numberReady": 2, "updatedNumberScheduled": 3}},
        clone_job("clone-x", SPEC, None, 0, SETTINGS),
    ]  # fmt: skip
    monkeypatch.setattr(cluster_view, "get", lambda *_: objects)
    monkeypatch.setattr(nodes, "known", lambda: [nodes.Node(number) for number in (1, 2, 3)])
    assert cluster_view.machinery().trouble == (
        "node node-2 is not Ready", "node node-3 is not Ready", "2 of 3 pods of agent are ready",
        f"1 clones to {SPEC.target} run",
    )  # fmt: skip
