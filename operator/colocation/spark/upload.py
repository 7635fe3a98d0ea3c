"""A load's tasks: write each bucket's files and send them to all of the bucket's replica nodes.

Runs in executors' Python workers. Whatever a failed, killed or speculative attempt sent is named after that attempt, is
in no manifest, and is collected as garbage.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from colocation.agentclient import AgentError, Credentials
from colocation.model.base import Frozen
from colocation.model.group import BucketSequence
from colocation.model.table_manifest import DataFile

from .agents import Agents
from .bucket_files import FileLayout, write_files

SENT_COLUMN = "sent"


class ReplicasMissing(Exception):
    """Fewer than a majority of a bucket's nodes took a file."""


class SentFile(Frozen):
    """A file and the nodes whose agents published it."""

    file: DataFile
    nodes: tuple[str, ...] = Field(description="Nodes that hold it.")


@dataclass(frozen=True)
class Destination:
    """Where a load's files go; plain values, since it travels to the executors.

    Attributes:
        buckets: the group's map.
        agents: ready agents' URLs by node.
    """

    namespace: str
    directory: str
    buckets: BucketSequence
    agents: dict[str, str]
    token_file: str
    ca_file: str

    def open_agents(self) -> Agents:
        """Clients of the agents."""
        return Agents(self.agents, Credentials(self.token_file, self.ca_file))


def majority(replicas: int) -> int:
    """How many of a bucket's nodes must hold a file before it may be committed."""
    return replicas // 2 + 1


def send_file(agents: Agents, destination: Destination, file: DataFile, content: Path) -> SentFile:
    """Send a file to all nodes of its bucket.

    Raises:
        ReplicasMissing: a majority did not take it; the message says why, node by node.
    """
    nodes = destination.buckets[file.bucket]
    failures = put_on(agents, destination, nodes, file, content)
    holders = tuple(node for node in nodes if node not in failures)
    if len(holders) < majority(len(nodes)):
        raise ReplicasMissing(
            f"bucket {file.bucket} of {destination.namespace}/{destination.directory}: {len(holders)} of "
            f"{len(nodes)} nodes took {file.path}, at least {majority(len(nodes))} must; "
            + "; ".join(f"{node}: {failure}" for node, failure in failures.items())
        )
    return SentFile(file=file, nodes=holders)


def put_on(
    agents: Agents, destination: Destination, nodes: Sequence[str], file: DataFile, content: Path
) -> dict[str, str]:
    """Put a file on nodes side by side; those that failed, with the reason."""

    def put(node: str) -> str | None:
        if node not in agents.nodes:
            return "its agent is not ready"
        try:
            agents.client(node).put_file(
                destination.namespace, destination.directory, file.path, content, file.sha256
            )
        except AgentError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
        outcomes = dict(zip(nodes, pool.map(put, nodes), strict=True))
    return {node: outcome for node, outcome in outcomes.items() if outcome is not None}


def sender(
    destination: Destination, layout: FileLayout
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """The function for ``mapInArrow``: rows in, one ``SentFile`` as JSON out per file."""

    def send_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "mapInArrow runs in a task"
        with tempfile.TemporaryDirectory(prefix="colocation-load-") as folder, destination.open_agents() as agents:
            for file, content in write_files(batches, layout, context.taskAttemptId(), Path(folder)):
                sent = send_file(agents, destination, file, content)
                content.unlink()
                yield pa.RecordBatch.from_pydict({SENT_COLUMN: [sent.model_dump_json(by_alias=True)]})

    return send_partition
