"""What must be on the nodes before a commit, against the real agents."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from colocation.agentclient import NotFound
from colocation.model.table import Column
from colocation.model.table_manifest import DataFile, TableManifest
from colocation.spark.agents import Agents
from colocation.spark.publication import follow_map, publish_manifest
from colocation.spark.upload import Destination, ReplicasMissing, SentFile, put_on, send_file
from tests.spark.loopback import LoopbackAgents, loopback_agents

NODES = ("node-1", "node-2", "node-3")
MAP = (("node-1", "node-2", "node-3"), ("node-1", "node-2", "node-3"))
DIRECTORY = "orders-12345678"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[LoopbackAgents]:
    with loopback_agents(tmp_path / "nodes", NODES) as agents:
        yield agents


@pytest.fixture
def destination(running: LoopbackAgents) -> Destination:
    return Destination(
        namespace="shop",
        directory=DIRECTORY,
        buckets=MAP,
        agents=running.urls,
        token_file=str(running.trust.token),
        ca_file=str(running.trust.certificate),
        retry_seconds=0,
    )


@pytest.fixture
def agents(destination: Destination) -> Iterator[Agents]:
    with destination.open_agents() as opened:
        yield opened


def make_file(folder: Path, load: str, bucket: int = 0) -> tuple[DataFile, Path]:
    content = folder / f"{load}-{bucket}"
    content.write_bytes(load.encode() * 100)
    sha256 = hashlib.sha256(content.read_bytes()).hexdigest()
    path = f"data/part-{load}-1_{bucket:05d}.c000.zstd.parquet"
    return DataFile(path=path, bucket=bucket, rows=1, bytes=content.stat().st_size, sha256=sha256), content


def manifest_of(*files: DataFile) -> TableManifest:
    return TableManifest(
        namespace="shop", table="orders", uid="12345678-0", snapshot_id=1, columns=(Column(name="k", type="bigint"),),
        bucketed_by=("k",), buckets=len(MAP), files=files,
    )


def test_everything_everywhere(agents: Agents, destination: Destination, tmp_path: Path) -> None:
    """Files and manifest on all nodes: nothing is missing."""
    file, content = make_file(tmp_path, "0000000a")
    assert send_file(agents, destination, file, content).nodes == NODES
    assert publish_manifest(agents, destination, manifest_of(file), [file])[1] == 0


def test_a_missing_replica_is_counted(agents: Agents, destination: Destination, tmp_path: Path) -> None:
    """A majority is enough; the operator learns from the count what it has to repair."""
    file, content = make_file(tmp_path, "0000000a")
    assert put_on(agents, destination, NODES[:2], file, content) == {}
    assert publish_manifest(agents, destination, manifest_of(file), [file])[1] == 1


def test_without_a_majority_it_is_refused(agents: Agents, destination: Destination, tmp_path: Path) -> None:
    """The error says what each node holds."""
    file, content = make_file(tmp_path, "0000000a")
    put_on(agents, destination, NODES[:1], file, content)
    with pytest.raises(ReplicasMissing, match=r"1 of its 3 nodes hold .* node-2: holds 0 of 1 files"):
        publish_manifest(agents, destination, manifest_of(file), [file])


def test_a_manifest_without_new_files_needs_a_majority_too(
    agents: Agents, destination: Destination, running: LoopbackAgents
) -> None:
    """The manifest of an emptied table, or of dropped partitions, must not be lost with one node."""
    assert publish_manifest(agents, destination, manifest_of(), [])[1] == 0
    running.stop("node-2")
    running.stop("node-3")
    with pytest.raises(ReplicasMissing, match="1 of its 3 nodes hold the manifest"):
        publish_manifest(agents, destination, manifest_of(), [])


def test_files_of_earlier_loads_are_not_this_loads_matter(
    agents: Agents, destination: Destination, tmp_path: Path
) -> None:
    """A node that lacks an old file but holds the new ones counts: its repair is under way."""
    old, old_content = make_file(tmp_path, "0000000a")
    new, new_content = make_file(tmp_path, "0000000b")
    put_on(agents, destination, NODES[:1], old, old_content)
    put_on(agents, destination, NODES, new, new_content)
    assert publish_manifest(agents, destination, manifest_of(old, new), [new])[1] == 0


def test_a_node_that_is_down_is_named(
    agents: Agents, destination: Destination, running: LoopbackAgents, tmp_path: Path
) -> None:
    """With two of three nodes down no file is taken; the error names both."""
    file, content = make_file(tmp_path, "0000000a")
    running.stop("node-2")
    running.stop("node-3")
    with pytest.raises(ReplicasMissing, match=r"1 of 3 nodes took .* at least 2 must; node-2: .*; node-3: "):
        send_file(agents, destination, file, content)


def test_new_files_follow_a_bucket_that_moved(agents: Agents, destination: Destination, tmp_path: Path) -> None:
    """Only moved buckets are copied, and only to their new nodes."""
    moved, moved_content = make_file(tmp_path, "0000000a", bucket=0)
    stays, stays_content = make_file(tmp_path, "0000000b", bucket=1)
    two = Destination(**{**destination.__dict__, "buckets": (NODES[:2], NODES[:2])})
    sent: list[SentFile] = [send_file(agents, two, moved, moved_content), send_file(agents, two, stays, stays_content)]
    follow_map(agents, two, sent, (NODES[1:], NODES[:2]))
    assert agents.client("node-3").head_file("shop", DIRECTORY, moved.path).sha256 == moved.sha256
    with pytest.raises(NotFound):
        agents.client("node-3").head_file("shop", DIRECTORY, stays.path)
