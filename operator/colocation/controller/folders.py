"""Folders of lost tables and of lost commits on the nodes, and what is in them: agents are asked on request."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from ..agentclient import AgentClient, AgentError, NotFound
from ..model.adoption import Folders, FolderSnapshot, NamedTable, TableFolder
from ..model.agent import ManifestSummary, TableReport
from ..model.table import TableSnapshot
from ..reconcile.adoption import newest_first
from ..reconcile.deletion import is_whole
from ..reconcile.recovery import takes_files
from ..state.assemble import assemble
from ..state.held import TableFiles
from ..state.objects import ObservedTable
from ..state.observation import Observation
from ..state.views import ClusterView, TableView

MAX_AT_ONCE = 8
"""Folders that are looked at at one time."""
Connect = Callable[[str], AgentClient]
"""Makes a client for an agent's URL; it may wait for as long as an agent hashes."""


async def folders_of(observation: Observation, connect: Connect) -> Folders:
    """All folders that no table has and no group remembers; and those of tables that may lack commits.

    Args:
        observation: of the last pass.
        connect: makes clients of agents.
    """
    limit = asyncio.Semaphore(MAX_AT_ONCE)
    cluster = await asyncio.to_thread(assemble, observation)

    async def look(path: str, agents: Mapping[str, str]) -> TableFolder:
        async with limit:
            return await asyncio.to_thread(look_into, cluster, path, agents, connect)

    found = folder_paths(cluster)
    folders = await asyncio.gather(*(look(path, found[path]) for path in sorted(found)))
    return folders_found(cluster, folders)


def folders_found(cluster: ClusterView, folders: Iterable[TableFolder]) -> Folders:
    """These folders, with the tables of their names."""
    folders = tuple(folders)
    names = {(one.namespace, one.table) for one in folders}
    identities = ((view, view.table.identity) for view in cluster.tables.values())
    tables = tuple(_named(view, cluster) for view, one in identities if (one.namespace, one.name) in names)
    return Folders(folders=folders, tables=tables, etcd_restored=cluster.observation.etcd_restored)


def folder_paths(cluster: ClusterView) -> dict[str, dict[str, str]]:
    """'<namespace>/<directory>' -> node -> URL of its agent, of the folders to look into.

    Not of disks that take no writes: what is there cannot be taken over, and nothing waits for it.
    """
    own, is_restored = cluster.by_folder, cluster.observation.etcd_restored
    known = {f"{namespace}/{directory}" for namespace, directory in cluster.known_folders}
    found: dict[str, dict[str, str]] = {}
    for node, url, view, report in cluster.observation.answering:
        if not takes_files(cluster, node):
            continue
        lost = {*report.unknown_directories, *report.recycled_directories} - known
        held = (key for key in view.tables if key in own and (is_restored or _is_adopting(own[key].table)))
        behind = (f"{namespace}/{directory}" for namespace, directory in held)
        for path in lost.union(behind):
            found.setdefault(path, {})[node] = url
    return found


def _is_adopting(table: ObservedTable) -> bool:
    return bool(table.adopts) and table.is_recovering and table.recovers is None


def _named(view: TableView, cluster: ClusterView) -> NamedTable:
    table, files = view.table, view.recovered_files if view.table.is_recovering else view.files
    snapshot = files.table.status.snapshot
    return NamedTable(
        namespace=table.identity.namespace,
        name=table.identity.name,
        directory=table.directory,
        columns=table.spec.columns if table.spec else (),
        snapshot=snapshot,
        is_whole=snapshot is not None and is_whole(files, cluster.disks_missing) and _has_history(files),
        adopts=table.adopts,
    )


def _has_history(files: TableFiles) -> bool:
    """Whether a node has the manifests of all retained snapshots."""
    return not files.table.status.history or any(report.retained_present for _, report in files.reports.asked)


def look_into(cluster: ClusterView, path: str, agents: Mapping[str, str], connect: Connect) -> TableFolder:
    """One folder with its snapshots: every agent that has it is asked."""
    namespace, _, directory = path.partition("/")
    clients = {node: connect(url) for node, url in agents.items()}
    views = {node: cluster.observation.agent_views[node] for node in sorted(agents)}
    folder = TableFolder(
        namespace=namespace,
        directory=directory,
        table=directory.rpartition("-")[0],
        nodes=tuple(sorted(agents)),
        recycled_nodes=tuple(
            node
            for node, view in views.items()
            if view.report
            and path in view.report.recycled_directories
            and path not in view.report.unknown_directories
            and (namespace, directory) not in view.tables
        ),
    )
    table = cluster.by_folder.get((namespace, directory))
    committed = table.table.status.snapshot if table else None
    asked = _Agents(folder, clients)
    try:
        snapshots = tuple(_verified(asked.manifests(), asked, committed.id if committed else 0))
    finally:
        for client in clients.values():
            client.close()
    problems = [f"node {node}: {error}" for node, error in asked.failures.items()]
    if not snapshots:
        problems.append("no manifest in it can be read")
    found = {"snapshots": snapshots, "problem": "; ".join(problems), "is_checked": not asked.failures}
    return folder.model_copy(update=found)


FoundManifests = list[tuple[ManifestSummary, tuple[str, ...]]]
"""Manifests with the nodes that have them, the newest first."""


class _Agents:
    """The agents that have a folder. ``failures``: node -> why its agent gave no answer; it is not asked again."""

    def __init__(self, folder: TableFolder, clients: Mapping[str, AgentClient]) -> None:
        self._folder = folder
        self._clients = clients
        self.failures: dict[str, AgentError] = {}

    def manifests(self) -> FoundManifests:
        """What they have, without manifests of another table."""
        found: dict[str, dict[str, ManifestSummary]] = {}
        for node, client in sorted(self._clients.items()):
            try:
                answer = client.manifests(self._folder.namespace, self._folder.directory)
            except AgentError as error:
                self.failures[node] = error
                continue
            for summary in answer.manifests:
                if summary.table == self._folder.table:
                    found.setdefault(summary.sha256, {})[node] = summary
        newest = newest_first([tuple(by_node.values()) for by_node in found.values()])
        return [(one, tuple(found[one.sha256])) for one in newest]

    def reports(self, manifest: str, nodes: Iterable[str]) -> Iterator[TableReport]:
        """What each of these nodes has of a manifest; not of a node where the folder is in the recycle bin."""
        for node in nodes:
            if node not in self.failures:
                try:
                    yield self._clients[node].verify(self._folder.namespace, self._folder.directory, manifest)
                except NotFound:
                    continue
                except AgentError as error:
                    self.failures[node] = error


def _verified(manifests: FoundManifests, agents: _Agents, committed: int) -> Iterator[FolderSnapshot]:
    """The snapshots, verified from the newest to the first that is whole.

    ``committed``: id of the table's snapshot; older ones need not be verified. 0 = there is none.
    """
    is_found = False
    for summary, nodes in manifests:
        found = _snapshot(summary, nodes)
        if not is_found and summary.snapshot_id > committed:
            found = found.model_copy(update=_completeness(agents.reports(summary.sha256, nodes)))
        is_found = is_found or found.is_whole
        yield found


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


def _snapshot(summary: ManifestSummary, nodes: tuple[str, ...]) -> FolderSnapshot:
    snapshot = TableSnapshot(
        id=summary.snapshot_id,
        manifest=f"sha256:{summary.sha256}",
        committed_at=summary.modified_at,
        partitions=summary.partitions,
        files=summary.files,
        rows=summary.rows,
        bytes=summary.bytes,
        buckets=summary.table_schema.table_buckets,
    )
    return FolderSnapshot(snapshot=snapshot, table_schema=summary.table_schema, nodes=nodes)
