"""What must be on the nodes before a commit, against the real agents."""

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.agent.read_requests import ReadRequests
from colocation.agentclient import NotFound
from colocation.model import table_manifest
from colocation.model.manifest_frames import ManifestParts, decompressed, is_framed
from colocation.model.table import Column
from colocation.model.table_manifest import DataFile, TableManifest, manifest_path
from colocation.spark.agents import Agents
from colocation.spark.write.copies import Substitute, put_on, substitutes_for
from colocation.spark.write.publication import follow_map, publish_manifest
from colocation.spark.write.upload import Destination, ReplicasMissing, SentFile, send_file
from colocation.storage import wanted
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


def sha256_on(agents: Agents, node: str, file: DataFile) -> str | None:
    """Of the file as the node holds it."""
    return agents.ask(node, lambda agent: agent.head_file("shop", DIRECTORY, file.path)).sha256


def manifest_of(*files: DataFile) -> TableManifest:
    return TableManifest(
        namespace="shop", table="orders", uid="12345678-0", snapshot_id=1, columns=(Column(name="k", type="bigint"),),
        bucketed_by=("k",), buckets=len(MAP), files=files,
    )


def test_everything_everywhere(agents: Agents, destination: Destination, tmp_path: Path) -> None:
    """Files and manifest on all nodes: nothing is missing."""
    file, content = make_file(tmp_path, "0000000a")
    sent = send_file(agents, destination, file, content)
    assert sent.nodes == NODES
    assert publish_manifest(agents, destination, manifest_of(file), [sent]).replicas_missing == 0


@pytest.mark.parametrize("is_older", [False, True])
def test_the_newest_format_that_all_agents_read(
    agents: Agents, destination: Destination, running: LoopbackAgents, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, is_older: bool,
) -> None:
    """Agents of an older release take a manifest of format 2 and do not read it: then format 1 is given to all."""
    monkeypatch.setattr(table_manifest, "FRAMED_FROM_FILES", 1)
    if is_older:
        monkeypatch.setattr(wanted, "manifest_parts", parts_of_format_1)
    file, content = make_file(tmp_path, "0000000a")
    sent = send_file(agents, destination, file, content)
    published = publish_manifest(agents, destination, manifest_of(file), [sent])
    assert published.replicas_missing == 0
    for root in running.roots.values():
        stored = (root / "shop" / DIRECTORY / manifest_path(published.sha256)).read_bytes()
        assert is_framed(stored) is not is_older


def parts_of_format_1(stored: bytes, sha256: str) -> ManifestParts:
    """As the release before decodes a manifest."""
    return ManifestParts(decompressed(stored, sha256, 1 << 20))


def test_a_missing_replica_is_counted(agents: Agents, destination: Destination, tmp_path: Path) -> None:
    """A majority is enough; the operator learns from the count what it has to repair."""
    file, content = make_file(tmp_path, "0000000a")
    assert put_on(agents, "shop", DIRECTORY, NODES[:2], file, content) == {}
    sent = SentFile(file=file, nodes=NODES[:2])
    published = publish_manifest(agents, destination, manifest_of(file), [sent])
    assert (published.replicas_missing, published.substitutes) == (1, ())


def test_without_a_majority_it_is_refused(agents: Agents, destination: Destination, tmp_path: Path) -> None:
    """The error says what each node holds."""
    file, content = make_file(tmp_path, "0000000a")
    put_on(agents, "shop", DIRECTORY, NODES[:1], file, content)
    with pytest.raises(ReplicasMissing, match=r"1 of its 3 nodes hold .* node-2: holds 0 of 1 files"):
        publish_manifest(agents, destination, manifest_of(file), [SentFile(file=file, nodes=NODES[:1])])


def test_a_manifest_without_new_files_needs_a_majority_too(
    agents: Agents, destination: Destination, running: LoopbackAgents
) -> None:
    """The manifest of an emptied table, or of dropped partitions, must not be lost with one node."""
    assert publish_manifest(agents, destination, manifest_of(), []).replicas_missing == 0
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
    put_on(agents, "shop", DIRECTORY, NODES[:1], old, old_content)
    put_on(agents, "shop", DIRECTORY, NODES, new, new_content)
    sent = SentFile(file=new, nodes=NODES)
    assert publish_manifest(agents, destination, manifest_of(old, new), [sent]).replicas_missing == 0


def test_a_node_that_is_down_is_named(
    agents: Agents, destination: Destination, running: LoopbackAgents, tmp_path: Path
) -> None:
    """With two of three nodes down no file is taken; the error names both."""
    file, content = make_file(tmp_path, "0000000a")
    running.stop("node-2")
    running.stop("node-3")
    with pytest.raises(ReplicasMissing, match=r"1 of 3 nodes took .* at least 2 must, .*; node-2: .*; node-3: "):
        send_file(agents, destination, file, content)


def test_new_files_follow_a_bucket_that_moved(agents: Agents, destination: Destination, tmp_path: Path) -> None:
    """Only moved buckets are copied, and only to their new nodes."""
    moved, moved_content = make_file(tmp_path, "0000000a", bucket=0)
    stays, stays_content = make_file(tmp_path, "0000000b", bucket=1)
    two = Destination(**{**destination.__dict__, "buckets": (NODES[:2], NODES[:2])})
    sent: list[SentFile] = [send_file(agents, two, moved, moved_content), send_file(agents, two, stays, stays_content)]
    follow_map(agents, two, sent, (NODES[1:], NODES[:2]))
    assert sha256_on(agents, "node-3", moved) == moved.sha256
    with pytest.raises(NotFound):
        sha256_on(agents, "node-3", stays)


def test_a_file_that_is_shortened_while_it_is_copied_comes_from_another_node(
    agents: Agents, destination: Destination, running: LoopbackAgents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first node gives is not the file that was written: it is not sent on."""
    file, content = make_file(tmp_path, "0000000a")
    two = replace(destination, buckets=(NODES[:2], NODES[:2]))
    sent = send_file(agents, two, file, content)
    allowed, first = ReadRequests._allowed, running.roots["node-1"] / "shop" / DIRECTORY / file.path

    def shortening(requests: ReadRequests, *arguments: object) -> bytes:
        answer = allowed(requests, *arguments)  # type: ignore[arg-type]
        os.truncate(first, file.bytes // 2)
        return answer

    monkeypatch.setattr(ReadRequests, "_allowed", shortening)
    follow_map(agents, two, [sent], (NODES[1:], NODES[:2]))
    assert sha256_on(agents, "node-3", file) == file.sha256


PAIRS = (("node-1", "node-2"), ("node-2", "node-3"))
"""Two replicas: a majority is both."""


@pytest.fixture
def pairs(destination: Destination) -> Destination:
    return replace(destination, buckets=PAIRS)


def test_a_substitute_takes_the_copy_of_a_node_that_is_down(
    agents: Agents, pairs: Destination, running: LoopbackAgents, tmp_path: Path
) -> None:
    """With two replicas and a node down both copies are on disks before the commit; the result says where and why."""
    file, content = make_file(tmp_path, "0000000a")
    running.stop("node-2")
    sent = send_file(agents, pairs, file, content)
    assert sent.nodes == ("node-1", "node-3")
    published = publish_manifest(agents, pairs, manifest_of(file), [sent])
    [substitute] = published.substitutes
    assert published.replicas_missing == 1
    assert substitute == Substitute(0, away="node-2", node="node-3", files=1, reason=substitute.reason)
    assert "Unreachable" in substitute.reason
    assert sha256_on(agents, "node-3", file) == file.sha256


def test_a_node_that_goes_after_the_upload_is_substituted_too(
    agents: Agents, pairs: Destination, running: LoopbackAgents, tmp_path: Path
) -> None:
    """Between the last file and the commit: the copy is made from the node that is left."""
    file, content = make_file(tmp_path, "0000000a")
    sent = send_file(agents, pairs, file, content)
    running.stop("node-2")
    published = publish_manifest(agents, pairs, manifest_of(file), [sent])
    assert [(one.away, one.node) for one in published.substitutes] == [("node-2", "node-3")]
    assert sha256_on(agents, "node-3", file) == file.sha256


def test_an_empty_bucket_needs_the_manifest_on_enough_nodes(
    agents: Agents, pairs: Destination, running: LoopbackAgents
) -> None:
    """All nodes of the group get it, so another one counts for the node that is down; that is nobody's substitute."""
    running.stop("node-2")
    published = publish_manifest(agents, pairs, manifest_of(), [])
    assert (published.replicas_missing, published.substitutes) == (0, ())
    running.stop("node-3")
    with pytest.raises(ReplicasMissing, match="1 of its 2 nodes hold the manifest"):
        publish_manifest(agents, pairs, manifest_of(), [])


def test_without_another_node_a_pair_takes_nothing(
    agents: Agents, destination: Destination, running: LoopbackAgents, tmp_path: Path
) -> None:
    """A group of two nodes with two replicas and one down has nowhere to put the second copy."""
    file, content = make_file(tmp_path, "0000000a")
    running.stop("node-2")
    only = replace(destination, buckets=(PAIRS[0], PAIRS[0]))
    with pytest.raises(ReplicasMissing, match=r"1 of 2 nodes took .* and no other node of the group did instead"):
        send_file(agents, only, file, content)


ROWS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3, unique=True)


@settings(deadline=None)
@given(st.integers(0, 63), st.lists(ROWS, min_size=1))
def test_substitutes_are_the_groups_other_nodes(bucket: int, rows: list[list[str]]) -> None:
    """None of the row, all of the others, in the same order wherever it is asked."""
    buckets = tuple(map(tuple, rows))
    bucket %= len(buckets)
    found = substitutes_for(buckets, bucket)
    assert found == substitutes_for(buckets, bucket)
    assert sorted(found) == sorted({node for row in buckets for node in row} - set(buckets[bucket]))


def test_an_agent_that_was_waited_for_in_vain_is_not_waited_for_again(
    pairs: Destination, running: LoopbackAgents, tmp_path: Path
) -> None:
    """A load with a node away costs the retry time once, not once per file; once it answers again it is as before."""
    file, content = make_file(tmp_path, "0000000a")
    running.stop("node-2")
    with replace(pairs, retry_seconds=1.5).open_agents() as agents:
        started = time.monotonic()
        send_file(agents, pairs, file, content)
        first = time.monotonic() - started
        for _ in range(20):
            send_file(agents, pairs, file, content)
        others = time.monotonic() - started - first
    assert first > 0.5
    assert others < 20 * 0.5
