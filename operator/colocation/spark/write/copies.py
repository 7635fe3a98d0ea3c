"""On which nodes the copies of a new file come to lie: those of its bucket, and others in the place of those away.

A bucket's map names ``replicas`` nodes. A copy that one of them does not take goes to another node of the group, a
*substitute*: a majority is on disks before anything may be committed, also with two replicas and one node down. The
operator keeps such copies until the map's nodes have theirs, and prefers a substitute as the lost node's successor.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from colocation.agentclient import AgentError
from colocation.model.group import BucketSequence
from colocation.model.table_manifest import DataFile

from ..agents import Agents

NOT_READY = "its agent is not ready"


@dataclass(frozen=True)
class Substitute:
    """Copies that lie elsewhere than the map says.

    Attributes:
        bucket: of the files.
        away: the map's node that did not take them.
        node: the one that did.
        files: how many.
        reason: why the map's node did not.
    """

    bucket: int
    away: str
    node: str
    files: int
    reason: str


def majority(replicas: int) -> int:
    """How many copies of a file must be on disks before it may be committed."""
    return replicas // 2 + 1


def substitutes_for(buckets: BucketSequence, bucket: int) -> list[str]:
    """The group's nodes outside a bucket's row, in the order in which they stand in for those of the row.

    It depends on bucket and names alone, so that all files of a bucket come to the same nodes, and those of different
    buckets to different ones.
    """
    others = {node for row in buckets for node in row}.difference(buckets[bucket])
    return sorted(others, key=lambda node: (crc32(f"{bucket}/{node}".encode()), node))


def put_on(
    agents: Agents, namespace: str, directory: str, nodes: Sequence[str], file: DataFile, content: Path
) -> dict[str, str]:
    """Put a file on nodes side by side; those that failed, with the reason."""

    def put(node: str) -> str | None:
        if node not in agents.nodes:
            return NOT_READY
        try:
            agents.ask(node, lambda agent: agent.put_file(namespace, directory, file.path, content, file.sha256))
        except AgentError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(max_workers=max(len(nodes), 1)) as pool:
        outcomes = dict(zip(nodes, pool.map(put, nodes), strict=True))
    return {node: outcome for node, outcome in outcomes.items() if outcome is not None}
