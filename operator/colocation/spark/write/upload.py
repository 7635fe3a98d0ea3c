"""A load's tasks: write each bucket's files and send them to all of the bucket's replica nodes, or to substitutes.

Runs in executors' Python workers. Whatever a failed, killed or speculative attempt sent is named after that attempt, is
in no manifest, and is collected as garbage.
"""

import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from colocation.agentclient import Credentials, Timeouts
from colocation.model.base import Frozen
from colocation.model.group import BucketSequence
from colocation.model.table_manifest import DataFile

from ..addresses import addresses_file
from ..agents import Agents
from .bucket_files import FileLayout, write_files
from .copies import majority, put_on, substitutes_for
from .load_schema import SchemaMismatch

OUTCOME_COLUMN = "outcome"
FILES_ON_THEIR_WAY = 2
"""While so many files of a task are being sent and synced, the task writes the next one."""


class ReplicasMissing(Exception):
    """Fewer nodes than a majority of a bucket's replicas took a file."""


class SentFile(Frozen):
    """A file and the nodes whose agents published it."""

    file: DataFile
    nodes: tuple[str, ...] = Field(description="Nodes that hold it, substitutes too.")


class Outcome(Frozen):
    """What a task says of a file, or why it gave up: one of the two.

    A task that gives up ends well for Spark, which would else run it again: rows do not change, and the agents' client
    has already tried for long enough.
    """

    sent: SentFile | None = None
    schema_mismatch: str | None = None
    replicas_missing: str | None = None

    def sent_file(self) -> SentFile:
        """The file.

        Raises:
            SchemaMismatch, ReplicasMissing: there is none, for this reason.
        """
        if self.schema_mismatch is not None:
            raise SchemaMismatch(self.schema_mismatch)
        if self.replicas_missing is not None:
            raise ReplicasMissing(self.replicas_missing)
        assert self.sent is not None, "an outcome is a file or a reason"
        return self.sent


@dataclass(frozen=True)
class Destination:
    """Where a load's files go; plain values, since it travels to the executors.

    Attributes:
        buckets: the group's map.
        agents: ready agents' URLs by node.
        retry_seconds: how long an agent that does not answer is tried.
    """

    namespace: str
    directory: str
    buckets: BucketSequence
    agents: dict[str, str]
    token_file: str
    ca_file: str
    retry_seconds: float

    def open_agents(self) -> Agents:
        """Clients of the agents."""
        timeouts = Timeouts(retry_deadline_seconds=self.retry_seconds)
        credentials = Credentials(self.token_file, self.ca_file)
        return Agents(self.agents, credentials, timeouts, addresses_file(self.ca_file))


def send_file(agents: Agents, destination: Destination, file: DataFile, content: Path) -> SentFile:
    """Send a file to all nodes of its bucket, and to substitutes for those that do not take it.

    Raises:
        ReplicasMissing: a majority did not take it; the message says why, node by node.
    """
    place = (destination.namespace, destination.directory)
    nodes = destination.buckets[file.bucket]
    failures = put_on(agents, *place, nodes, file, content)
    holders = [node for node in nodes if node not in failures]
    for substitute in substitutes_for(destination.buckets, file.bucket):
        if len(holders) == len(nodes):
            break
        failed = put_on(agents, *place, [substitute], file, content)
        failures.update(failed)
        holders += [] if failed else [substitute]
    if len(holders) < majority(len(nodes)):
        raise ReplicasMissing(
            f"bucket {file.bucket} of {destination.namespace}/{destination.directory}: {len(holders)} of "
            f"{len(nodes)} nodes took {file.path}, at least {majority(len(nodes))} must, and no other node of the "
            "group did instead; " + "; ".join(f"{node}: {failure}" for node, failure in failures.items())
        )
    return SentFile(file=file, nodes=tuple(holders))


def sender(
    destination: Destination, layout: FileLayout
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """The function for ``mapInArrow``: rows in, ``Outcome`` as JSON out."""

    def send_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "mapInArrow runs in a task"
        for outcome in _outcomes(batches, destination, layout, context.taskAttemptId()):
            yield pa.RecordBatch.from_pydict({OUTCOME_COLUMN: [outcome.model_dump_json(by_alias=True)]})

    return send_partition


def _outcomes(
    batches: Iterable[pa.RecordBatch], destination: Destination, layout: FileLayout, attempt: int
) -> Iterator[Outcome]:
    with (
        tempfile.TemporaryDirectory(prefix="colocation-load-") as folder,
        destination.open_agents() as agents,
        ThreadPoolExecutor(max_workers=FILES_ON_THEIR_WAY) as pool,
    ):

        def send_and_remove(file: DataFile, content: Path) -> Outcome:
            sent = send_file(agents, destination, file, content)
            content.unlink()
            return Outcome(sent=sent)

        sending: deque[Future[Outcome]] = deque()
        try:
            for file, content in write_files(batches, layout, attempt, Path(folder)):
                sending.append(pool.submit(send_and_remove, file, content))
                if len(sending) > FILES_ON_THEIR_WAY:
                    yield sending.popleft().result()
            while sending:
                yield sending.popleft().result()
        except SchemaMismatch as error:
            yield Outcome(schema_mismatch=str(error))
        except ReplicasMissing as error:
            yield Outcome(replicas_missing=str(error))
