"""What must be on the nodes before a load may be committed: files on their buckets' nodes, the manifest everywhere."""

import hashlib
import logging
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from colocation.agentclient import AgentClient, AgentError, NotFound, check_digest
from colocation.model.agent import TableReport
from colocation.model.group import BucketSequence
from colocation.model.manifest_frames import is_framed
from colocation.model.table_manifest import PLAIN_FORMAT, DataFile, TableManifest, encode_manifest

from ..agents import Agents, NoAgentAnswers
from .copies import NOT_READY, Substitute, majority, put_on, substitutes_for
from .upload import Destination, ReplicasMissing, SentFile

LOG = logging.getLogger(__name__)


def follow_map(agents: Agents, destination: Destination, sent: Sequence[SentFile], buckets: BucketSequence) -> None:
    """Copy new files to nodes that took over their buckets while the load ran.

    A moved bucket's old node deletes what it holds of it, new files too, so the new node must have them before the
    commit.

    Raises:
        NoAgentAnswers: no node gives a file any more.
    """
    for one in sent:
        before = destination.buckets[one.file.bucket]
        nodes = [node for node in buckets[one.file.bucket] if node not in before and node not in one.nodes]
        if nodes:
            _copy(agents, destination, one.file, one.nodes, nodes)


@dataclass(frozen=True)
class Published:
    """What is on the nodes before a commit.

    Attributes:
        sha256: of the manifest.
        replicas_missing: copies of new files that are not on the map's nodes.
        substitutes: where copies lie instead.
    """

    sha256: str
    replicas_missing: int
    substitutes: tuple[Substitute, ...]


def publish_manifest(
    agents: Agents, destination: Destination, manifest: TableManifest, sent: Sequence[SentFile]
) -> Published:
    """Give the manifest to all nodes of the group, check what they hold of the new files, and have substitutes for what
    a bucket's nodes do not hold.

    Raises:
        ReplicasMissing: fewer nodes than a majority of a bucket's replicas hold the manifest and the bucket's new
            files; also of a bucket without new files, so that the manifest of an emptied table is not lost.
    """
    sha256, outcomes = _put_readable(agents, destination, manifest)
    by_bucket: dict[int, list[SentFile]] = {bucket: [] for bucket in range(len(destination.buckets))}
    for one in sent:
        by_bucket[one.file.bucket].append(one)
    missing = 0
    substitutes: list[Substitute] = []
    for bucket, files in by_bucket.items():
        copies = _Copies(agents, destination, outcomes, bucket, files)
        copies.find()
        missing += len(copies.away) * len(files)
        substitutes += copies.substitutes
    return Published(sha256, missing, tuple(substitutes))


class _Copies:
    """Of one bucket's new files and the manifest: who has all of them.

    ``away``: the row's nodes that do not. Files of earlier loads that a node lacks are the operator's to repair.
    """

    def __init__(
        self,
        agents: Agents,
        destination: Destination,
        outcomes: Mapping[str, TableReport | str],
        bucket: int,
        sent: Sequence[SentFile],
    ) -> None:
        self._agents = agents
        self._destination = destination
        self._outcomes = outcomes
        self._bucket = bucket
        self._sent = sent
        self._row = destination.buckets[bucket]
        self.away: list[str] = []
        self.substitutes: list[Substitute] = []

    def find(self) -> None:
        """Find the copies, and make substitutes for those of the row that are away.

        Raises:
            ReplicasMissing: there are fewer than a majority.
        """
        holders = [node for node in self._row if self._holds(node)]
        self.away = [node for node in self._row if node not in holders]
        left = list(self.away)
        for node in substitutes_for(self._destination.buckets, self._bucket):
            if left and self._stands_in(node, holders):
                holders.append(node)
                away = left.pop(0)
                if self._sent:
                    reason = self._said(away)
                    self.substitutes.append(Substitute(self._bucket, away, node, len(self._sent), reason))
        wanted = majority(len(self._row))
        if len(holders) < wanted:
            raise ReplicasMissing(
                f"bucket {self._bucket} of {self._destination.namespace}/{self._destination.directory}: "
                f"{len(holders)} of its {len(self._row)} nodes hold the manifest and the new files, at least {wanted} "
                "must, and no other node of the group does instead; "
                + "; ".join(f"{node}: {self._said(node)}" for node in self._row)
            )

    def _has_manifest(self, node: str) -> bool:
        outcome = self._outcomes[node]
        return not isinstance(outcome, str) and outcome.manifest_present

    def _holds(self, node: str) -> bool:
        """Whether a node holds the manifest and the new files."""
        outcome = self._outcomes[node]
        if isinstance(outcome, str) or not outcome.manifest_present:
            return False
        held = outcome.buckets.get(self._bucket)
        if not self._sent or (held is not None and held.state == "complete"):
            return True
        place = (self._destination.namespace, self._destination.directory)
        try:
            for one in self._sent:
                head = self._agents.ask(node, lambda agent, path=one.file.path: agent.head_file(*place, path))  # type: ignore[misc]
                if head.sha256 != one.file.sha256:
                    return False
        except AgentError:
            return False
        return True

    def _stands_in(self, node: str, holders: Sequence[str]) -> bool:
        """Whether a node outside the row holds all, after what it lacks was copied there."""
        if not self._has_manifest(node):
            return False
        lacking = [one for one in self._sent if node not in one.nodes]
        try:
            for one in lacking:
                sources = [*holders, *(other for other in one.nodes if other not in holders)]
                if _copy(self._agents, self._destination, one.file, sources, [node]):
                    return False
        except NoAgentAnswers:
            return False
        return self._holds(node)

    def _said(self, node: str) -> str:
        outcome = self._outcomes[node]
        if isinstance(outcome, str):
            return outcome
        held = outcome.buckets.get(self._bucket)
        return f"holds {held.files_held} of {held.files_wanted} files" if held else "holds nothing of it"


def _copy(
    agents: Agents, destination: Destination, file: DataFile, sources: Sequence[str], nodes: Sequence[str]
) -> dict[str, str]:
    """Copy a file from a node that has it to others; those that failed, with the reason.

    Raises:
        NoAgentAnswers: no node gives the file.
    """
    place = (destination.namespace, destination.directory)
    with tempfile.TemporaryDirectory(prefix="colocation-load-") as folder:
        content = Path(folder) / "file"

        def fetch(client: AgentClient) -> None:
            digest = hashlib.sha256()
            with client.get_file(*place, file.path) as stream, content.open("wb") as target:
                for chunk in stream.chunks():
                    digest.update(chunk)
                    target.write(chunk)
            check_digest(digest.hexdigest(), file.sha256)

        agents.first_answer(file.path, [node for node in sources if node in agents.nodes], fetch)
        return put_on(agents, *place, nodes, file, content)


class _Unread(str):
    """Says an agent that has just taken a manifest: to it there is none."""


def _put_readable(
    agents: Agents, destination: Destination, manifest: TableManifest
) -> tuple[str, dict[str, TableReport | str]]:
    """Give the manifest to all nodes in the best format that all their agents read: (sha256, what each says of it).

    An agent of an older release takes a manifest of a newer format, as any other file, but does not read it.
    """
    sha256, stored = encode_manifest(manifest)
    outcomes = _put_everywhere(agents, destination, stored, sha256)
    unread = [node for node, said in outcomes.items() if isinstance(said, _Unread)]
    if unread and is_framed(stored):
        LOG.warning("agents of %s do not read manifests of format 2 yet; format 1 is written", ", ".join(unread))
        sha256, stored = encode_manifest(manifest, PLAIN_FORMAT)
        outcomes = _put_everywhere(agents, destination, stored, sha256)
    return sha256, outcomes


def _put_everywhere(
    agents: Agents, destination: Destination, stored: bytes, sha256: str
) -> dict[str, TableReport | str]:
    """For each node of the group what its agent holds of the manifest, or why it cannot say."""
    place = (destination.namespace, destination.directory)

    def put(node: str) -> TableReport | str:
        if node not in agents.nodes:
            return NOT_READY
        try:
            agents.ask(node, lambda agent: agent.put_manifest(*place, stored, sha256))
            return agents.ask(node, lambda agent: agent.verify(*place, sha256))
        except NotFound as error:
            return _Unread(error)
        except AgentError as error:
            return str(error)

    nodes = sorted({node for bucket in destination.buckets for node in bucket})
    with ThreadPoolExecutor(max_workers=min(len(nodes), 16)) as pool:
        return dict(zip(nodes, pool.map(put, nodes), strict=True))
