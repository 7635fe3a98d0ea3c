"""Folders on the nodes that no table has, and what can be made of them: asked of the agents when somebody asks."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from ..agentclient import AgentClient, AgentError, NotFound
from ..model.adoption import OrphanFolder, Orphans, OrphanSnapshot
from ..model.agent import ManifestSummary, TableReport
from ..model.table import TableSnapshot
from ..state.observation import Observation
from ..state.recycled import recycled_records

MAX_VERIFIED = 5
"""Of a folder the newest snapshots are looked at, up to the first that is whole."""
MAX_AT_ONCE = 8
"""Folders that are looked at at one time."""


async def orphans_of(observation: Observation, connect: Callable[[str], AgentClient]) -> Orphans:
    """All folders that no table has and no group remembers, with their snapshots.

    Args:
        observation: of the last pass.
        connect: makes a client for an agent's URL; it may wait for as long as an agent hashes.
    """
    limit = asyncio.Semaphore(MAX_AT_ONCE)

    async def look(path: str, agents: Mapping[str, str]) -> OrphanFolder:
        async with limit:
            folder = await asyncio.to_thread(_looked_at, path, agents, connect)
        return folder.model_copy(update={"recycled_nodes": recycled_nodes(observation, path)})

    found = orphan_paths(observation)
    return Orphans(folders=tuple(await asyncio.gather(*(look(path, found[path]) for path in sorted(found)))))


def orphan_paths(observation: Observation) -> dict[str, dict[str, str]]:
    """'<namespace>/<directory>' -> node -> URL of its agent, of the folders that lie there or in the recycle bin."""
    known = {f"{table.identity.namespace}/{table.directory}" for table in observation.tables}
    for record, _ in recycled_records(observation.groups).values():
        known.update(f"{record.namespace}/{directory}" for directory in record.directories)
    found: dict[str, dict[str, str]] = {}
    for node, view in observation.agent_views.items():
        url = observation.agent_urls.get(node)
        if url is None or view.report is None or view.silent_since is not None:
            continue
        for path in (*view.report.unknown_directories, *view.report.recycled_directories):
            if path not in known:
                found.setdefault(path, {})[node] = url
    return found


def recycled_nodes(observation: Observation, path: str) -> tuple[str, ...]:
    """The nodes that have this folder in their recycle bin, and not in its place."""
    reports = {node: view.report for node, view in observation.agent_views.items() if view.report}
    return tuple(
        node
        for node, report in sorted(reports.items())
        if path in report.recycled_directories and path not in report.unknown_directories
    )


def _looked_at(path: str, agents: Mapping[str, str], connect: Callable[[str], AgentClient]) -> OrphanFolder:
    namespace, _, directory = path.partition("/")
    clients = {node: connect(url) for node, url in agents.items()}
    folder = OrphanFolder(
        namespace=namespace, directory=directory, table=directory.rpartition("-")[0], nodes=tuple(sorted(agents))
    )
    try:
        lying, problems = _manifests(folder, clients)
        snapshots = tuple(_verified(folder, lying, clients))
    finally:
        for client in clients.values():
            client.close()
    if not snapshots:
        problems.append("no manifest in it can be read")
    return folder.model_copy(update={"snapshots": snapshots, "problem": "; ".join(problems)})


Lying = list[tuple[ManifestSummary, tuple[str, ...]]]
"""Manifests with the nodes that have them, the newest first."""


def _manifests(folder: OrphanFolder, clients: Mapping[str, AgentClient]) -> tuple[Lying, list[str]]:
    summaries: dict[str, ManifestSummary] = {}
    nodes: dict[str, list[str]] = {}
    problems: list[str] = []
    for node, client in sorted(clients.items()):
        try:
            answer = client.manifests(folder.namespace, folder.directory)
        except AgentError as error:
            problems.append(f"node {node}: {error}")
            continue
        for summary in answer.manifests:
            if summary.table == folder.table:
                summaries[summary.sha256] = summary
                nodes.setdefault(summary.sha256, []).append(node)
    # Of two with one number one was never committed: that which more nodes have is the likelier.
    newest = sorted(
        summaries.values(), key=lambda one: (one.snapshot_id, len(nodes[one.sha256]), one.modified_at), reverse=True
    )
    return [(one, tuple(nodes[one.sha256])) for one in newest], problems


def _verified(folder: OrphanFolder, lying: Lying, clients: Mapping[str, AgentClient]) -> Iterator[OrphanSnapshot]:
    is_found = False
    for number, (summary, nodes) in enumerate(lying):
        found = _snapshot(folder, summary, nodes)
        if not is_found and number < MAX_VERIFIED:
            reports = [report for node in nodes if (report := _report(folder, summary, clients[node]))]
            found = found.model_copy(update=_completeness(reports))
        is_found = is_found or found.is_whole
        yield found


def _report(folder: OrphanFolder, summary: ManifestSummary, client: AgentClient) -> TableReport | None:
    try:
        return client.verify(folder.namespace, folder.directory, summary.sha256)
    except NotFound:
        return None  # in the recycle bin: nothing reads the files there
    except AgentError:
        return None


def _completeness(reports: Iterable[TableReport]) -> dict[str, object]:
    reports = list(reports)
    if not reports:
        return {"missing_buckets": None}
    wanted = {bucket for report in reports for bucket, held in report.buckets.items() if held.files_wanted}
    complete = Counter(
        bucket for report in reports for bucket, held in report.buckets.items() if held.state == "complete"
    )
    missing = tuple(sorted(bucket for bucket in wanted if not complete[bucket]))
    return {"missing_buckets": missing, "copies": max((complete[bucket] for bucket in wanted), default=len(reports))}


def _snapshot(folder: OrphanFolder, summary: ManifestSummary, nodes: tuple[str, ...]) -> OrphanSnapshot:
    """Until its next load a table that was brought back has the manifest of the one before: the folder's name shows
    whose it is, with the first digits of the uid.
    """
    digits = folder.directory.rpartition("-")[2]
    uid = summary.uid if summary.uid.startswith(digits) else digits
    snapshot = TableSnapshot(
        id=summary.snapshot_id,
        manifest=f"sha256:{summary.sha256}",
        committed_at=summary.modified_at,
        partitions=summary.partitions,
        files=summary.files,
        rows=summary.rows,
        bytes=summary.bytes,
    )
    return OrphanSnapshot(uid=uid, snapshot=snapshot, table_schema=summary.table_schema, nodes=nodes)
