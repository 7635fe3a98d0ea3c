"""What must be on the nodes before a load may be committed: files on their buckets' nodes, the manifest everywhere."""

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from colocation.agentclient import AgentClient, AgentError
from colocation.model.agent import TableReport
from colocation.model.group import BucketSequence
from colocation.model.table_manifest import DataFile, TableManifest, encode_manifest

from .agents import Agents
from .upload import Destination, ReplicasMissing, SentFile, majority, put_on


def follow_map(agents: Agents, destination: Destination, sent: Sequence[SentFile], buckets: BucketSequence) -> None:
    """Copy new files to nodes that took over their buckets while the load ran.

    A moved bucket's old node deletes what it holds of it, new files too, so the new node must have them before the
    commit.

    Raises:
        NoAgentAnswers: no node gives a file any more.
    """
    moved = replace(destination, buckets=buckets)
    for one in sent:
        nodes = [node for node in buckets[one.file.bucket] if node not in destination.buckets[one.file.bucket]]
        if not nodes:
            continue
        with tempfile.TemporaryDirectory(prefix="colocation-load-") as folder:
            content = Path(folder) / "file"

            def fetch(client: AgentClient, file: DataFile = one.file, content: Path = content) -> None:
                with (
                    client.get_file(destination.namespace, destination.directory, file.path) as stream,
                    content.open("wb") as target,
                ):
                    target.writelines(stream.chunks())

            agents.first_answer(one.file.path, [node for node in one.nodes if node in agents.nodes], fetch)
            put_on(agents, moved, nodes, one.file, content)


def publish_manifest(
    agents: Agents, destination: Destination, manifest: TableManifest, new_files: Sequence[DataFile]
) -> tuple[str, int]:
    """Give the manifest to all nodes of the group and check what they hold of the new files.

    Returns:
        (sha256 of the manifest, replicas of new files that are still missing).

    Raises:
        ReplicasMissing: a majority of a bucket's nodes does not hold the manifest and the bucket's new files; also of a
            bucket without new files, so that the manifest of an emptied table is not lost.
    """
    sha256, stored = encode_manifest(manifest)
    outcomes = _put_everywhere(agents, destination, stored, sha256)
    by_bucket: dict[int, list[DataFile]] = {bucket: [] for bucket in range(len(destination.buckets))}
    for file in new_files:
        by_bucket[file.bucket].append(file)
    missing = 0
    for bucket, files in by_bucket.items():
        nodes = destination.buckets[bucket]
        holders = [node for node in nodes if _holds(agents, destination, outcomes[node], files, node)]
        if len(holders) < majority(len(nodes)):
            raise ReplicasMissing(
                f"bucket {bucket} of {manifest.namespace}.{manifest.table}: {len(holders)} of its {len(nodes)} nodes "
                f"hold the manifest and the new files, at least {majority(len(nodes))} must; "
                + "; ".join(f"{node}: {_describe(outcomes[node], bucket)}" for node in nodes)
            )
        missing += (len(nodes) - len(holders)) * len(files)
    return sha256, missing


def _put_everywhere(
    agents: Agents, destination: Destination, stored: bytes, sha256: str
) -> dict[str, TableReport | str]:
    """For each node of the group what its agent holds of the manifest, or why it cannot say."""
    namespace, directory = destination.namespace, destination.directory

    def put(node: str) -> TableReport | str:
        if node not in agents.nodes:
            return "its agent is not ready"
        try:
            agents.client(node).put_manifest(namespace, directory, stored, sha256)
            return agents.client(node).verify(namespace, directory, sha256)
        except AgentError as error:
            return str(error)

    nodes = sorted({node for bucket in destination.buckets for node in bucket})
    with ThreadPoolExecutor(max_workers=min(len(nodes), 16)) as pool:
        return dict(zip(nodes, pool.map(put, nodes), strict=True))


def _holds(
    agents: Agents, destination: Destination, outcome: TableReport | str, files: Sequence[DataFile], node: str
) -> bool:
    """Whether a node holds the manifest and a bucket's new files.

    Files of earlier loads that it lacks are the operator's to repair.
    """
    if isinstance(outcome, str) or not outcome.manifest_present:
        return False
    if not files:
        return True
    held = outcome.buckets.get(files[0].bucket)
    if held is not None and held.state == "complete":
        return True
    try:
        heads = [agents.client(node).head_file(destination.namespace, destination.directory, f.path) for f in files]
    except AgentError:
        return False
    return all(head.sha256 == file.sha256 for head, file in zip(heads, files, strict=True))


def _describe(outcome: TableReport | str, bucket: int) -> str:
    if isinstance(outcome, str):
        return outcome
    held = outcome.buckets.get(bucket)
    return f"holds {held.files_held} of {held.files_wanted} files" if held else "holds nothing of it"
