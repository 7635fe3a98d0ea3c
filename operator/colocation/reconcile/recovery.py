"""Decides how dropped tables come back: a table is made from the manifest, takes over the folders, gets its snapshot.

Each step is found again in the objects, so it can be interrupted anywhere: the request is an annotation of the group,
the new table states whose data it takes over, the group remembers under which names the folders lie.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..model.conditions import EventReason, Reason, is_disk_usable
from ..model.group import RecycledTable
from ..model.names import GROUP_KIND, group_reference, table_directory
from ..model.schema_check import Refusal
from ..model.snapshot import Snapshot
from ..state.agent_view import AgentView
from ..state.confirmation import has_heard, unheard
from ..state.held import GroupFiles, TableFiles, holdings
from ..state.objects import ObservedGroup, ObservedTable
from ..state.observation import Observation
from ..state.parse import parse_time
from ..state.placement import allows
from ..state.views import ClusterView, GroupView, TableView
from .actions import Action, CreateTable, DroppedFolder, EndRecoverRequests, PostEvent, RestoreTable
from .scopes import Containment

NodesOfFolders = Mapping[str, Sequence[tuple[str, str]]]
"""``<namespace>/<directory>`` of a folder -> (node, its agent's URL) of all that have it."""
MAX_REFUSAL_EVENTS = 8
"""Of one group in one pass; it has as many annotations as anybody writes who may patch it."""
MAX_NAMED_FOLDERS = 3
REQUEST_DIGITS = 8
"""Of a dropped table's uid, in the annotation that asks for it; see ``model.names.RECOVER_PREFIX``."""


def bins_of(observation: Observation) -> NodesOfFolders:
    """The folders in the recycle bins of the agents that answer."""
    return _by_folder((node, url, report.recycled_directories) for node, url, _, report in observation.answering)


def unclaimed_folders(observation: Observation) -> NodesOfFolders:
    """Those, and the folders in their places whose table the agents were not asked about."""
    return _by_folder(
        (node, url, (*report.recycled_directories, *report.unknown_directories))
        for node, url, _, report in observation.answering
    )


def _by_folder(found: Iterable[tuple[str, str, Iterable[str]]]) -> NodesOfFolders:
    by_folder: dict[str, dict[tuple[str, str], None]] = {}
    for node, url, folders in found:
        for folder in folders:
            by_folder.setdefault(folder, {})[node, url] = None
    return {folder: tuple(nodes) for folder, nodes in by_folder.items()}


@dataclass(frozen=True)
class Recovery:
    """A table that takes over a dropped one's files.

    ``awaited``: orders to nodes that can carry them out: a disk that fails may keep its folder for good.
    ``homeless``: buckets of which the live nodes together do not hold all files, as far as they can say.
    ``unheard``: nodes whose agent answers and has not yet said what it has of the table: without waiting for it, its
    files would be cloned instead of taken over.
    """

    table: ObservedTable
    record: RecycledTable
    group: ObservedGroup
    orders: tuple[RestoreTable, ...]
    awaited: tuple[RestoreTable, ...]
    homeless: tuple[int, ...]
    unheard: tuple[str, ...]
    is_coming: bool
    """Whether a node that can give its folder has yet to do so, or to say what it holds then."""
    others: tuple[str, ...] = ()
    """NodesOfFolders of the table's name that no table has and no group remembers."""

    @property
    def is_whole(self) -> bool:
        """Whether the table may have its snapshot."""
        return not self.homeless and not self.awaited and not self.unheard

    @property
    def refusal(self) -> Refusal:
        """Why the table takes no loads yet."""
        return Refusal(reason=Reason.RECOVERING, message=self._message)

    @property
    def _message(self) -> str:
        if self.homeless and not self.is_coming:
            listed = ", ".join(map(str, self.homeless[:20]))
            return (
                f"the live nodes lack files of buckets {listed}, or have not verified them; "
                f"nodes that are away must come back{_hint(self.record, self.others)}"
            )
        return "the nodes bring back its files"


def _hint(record: RecycledTable, others: Sequence[str]) -> str:
    """Where the files may be, if etcd was restored to a copy that does not know their folder."""
    if not others:
        return ""
    listed = ", ".join(others[:MAX_NAMED_FOLDERS]) + (", …" if len(others) > MAX_NAMED_FOLDERS else "")
    return (
        f"; no table has and no group remembers {listed}, of the same name: `colocation adopt -n {record.namespace} "
        f"--table {record.name} --recycled` shows what is in there"
    )


def _other_folders(record: RecycledTable, cluster: ClusterView, unclaimed: NodesOfFolders) -> tuple[str, ...]:
    """NodesOfFolders of a dropped table's name that no table has and no group remembers."""
    prefix = f"{record.namespace}/{record.name}-"
    found = [path for path in unclaimed if path.rpartition("-")[0] + "-" == prefix]
    if not found:
        return ()
    directories = (path.partition("/")[2] for path in found)
    return tuple(sorted(one for one in directories if (record.namespace, one) not in cluster.known_folders))


def recoveries_of(
    cluster: ClusterView, snapshot: Snapshot, unclaimed: NodesOfFolders, containment: Containment
) -> Iterator[Recovery]:
    """Every table that is being brought back."""
    ready = {node.name for node in snapshot.nodes if node.ready}
    able = {node.name for node in snapshot.nodes if node.ready and is_disk_usable(node.disk_reason)}
    for view in cluster.tables.values():
        if view.dropped and view.table.is_recovering and not view.table.identity.deleting:
            recovery = containment.run(view.table.scope, _recovery, view, cluster.observation, ready, able)
            if recovery:
                yield replace(recovery, others=_other_folders(recovery.record, cluster, unclaimed))


def _recovery(view: TableView, seen: Observation, ready: set[str], able: set[str]) -> Recovery:
    table, wanted, record, group = view.table, view.recovered_files, view.dropped, view.dropped_by
    assert record is not None and group is not None
    homeless = tuple(_homeless(wanted, group, ready))
    if homeless and _cannot_name_files(seen, wanted.table, group, ready):
        homeless = ()
    possible = tuple(_orders(seen, table, record))
    # They are given once the group remembers the new table's name for the folders.
    orders = possible if view.uid in record.recovery_uids else ()
    awaited = tuple(order for order in orders if order.node in able)
    silent = tuple(unheard(seen, wanted.table))
    is_coming = bool(silent) or any(order.node in able for order in possible)
    return Recovery(table, record, group, orders, awaited, homeless, silent, is_coming)


def _orders(observation: Observation, table: ObservedTable, record: RecycledTable) -> Iterator[RestoreTable]:
    """To every node that has a folder of the dropped table."""
    namespace = record.namespace
    for node, url, view, report in observation.answering:
        if _has_files(view, namespace, table.directory):
            continue  # what a late node brings is not needed any more
        unclaimed = {*report.recycled_directories, *report.unknown_directories}
        for directory in record.directories:
            if directory != table.directory and f"{namespace}/{directory}" in unclaimed:
                yield RestoreTable(node, url, namespace, directory, table.directory, observation.term)


def folders_taken_over(
    table: ObservedTable, cluster: ClusterView, bins: NodesOfFolders, unclaimed: NodesOfFolders
) -> Iterator[RestoreTable]:
    """To every node that has a folder whose files are this table's.

    Its own folder in the bin: its drop was undone by an older copy of etcd, as no uid comes back otherwise. The folder
    of the table that it has brought back, on a node that was away then. The folder that an administrator has it adopt.
    """
    term, namespace, name = cluster.observation.term, table.identity.namespace, table.identity.name
    sources = [(table.directory, bins)]
    if table.recovers and table.status.snapshot:
        sources.append((table_directory(name, table.recovers), unclaimed))
    if table.adopts:
        sources.append((table_directory(name, table.adopts), unclaimed))
    for directory, folders in sources:
        for node, url in folders.get(f"{namespace}/{directory}", ()):
            if takes_files(cluster, node):
                yield RestoreTable(node, url, namespace, directory, table.directory, term)


def lacks_manifest(observation: Observation, table: ObservedTable, node: str) -> bool:
    """Whether the node cannot serve the table before it has the folder.

    Other folders are asked for now and then only: a load may have brought the manifest since, and what is left in them
    are damaged copies.
    """
    report = observation.agent_views[node].tables.get((table.identity.namespace, table.directory))
    return table.status.snapshot is None or report is None or not report.manifest_present


def takes_files(cluster: ClusterView, node: str) -> bool:
    """Whether a node can rename folders on its disk, and the disk is the one that groups know there."""
    report = cluster.observation.agent_views[node].report
    reason = report.disk.reason if report and report.disk else ""
    return node not in cluster.disks_missing and is_disk_usable(reason)


def _has_files(view: AgentView, namespace: str, directory: str) -> bool:
    found = view.tables.get((namespace, directory))
    return found is not None and any(held.files_held for held in found.buckets.values())


def _homeless(files: TableFiles, group: ObservedGroup, ready: set[str]) -> Iterator[int]:
    buckets = group.spec.buckets if group.spec else 0
    for bucket in sorted(files.wanted_bytes(buckets)):
        if not _is_held(files, bucket, ready):
            yield bucket


def _is_held(files: TableFiles, bucket: int, ready: set[str]) -> bool:
    """Whether the live nodes hold all of the bucket's files together; a clone takes each from a node that has it.

    None may have it whole, after loads while nodes were away, if the table was dropped before their files were copied
    together.
    """
    lacking = -1  # all bits
    for node, report in files.reports.holding:
        if node in ready and files.is_committed_snapshot(report) and bucket in report.buckets:
            lacking &= report.buckets[bucket].lacking
    return lacking == 0


def _cannot_name_files(observation: Observation, table: ObservedTable, group: ObservedGroup, ready: set[str]) -> bool:
    """Whether nodes hold files that they cannot name, and no node of the map is away that could bring more.

    They lack the newest manifest: loads went on without them, and the table was dropped before it was repaired. It
    comes back as it was then, and is repaired like any other: clones bring the manifest.
    """
    key = (table.identity.namespace, table.directory)
    views = observation.agent_views.items()
    answering = {node: view for node, view in views if node in ready and view.silent_since is None}
    reported = [report for view in answering.values() if (report := view.tables.get(key))]
    rows = group.status.backends_per_bucket_seq or ()
    return (
        any(one.manifest_present for one in reported)
        and any(one.surplus_bytes and not one.manifest_present for one in reported)
        and all(node in answering for row in rows for node in row)
    )


def is_lost(record: RecycledTable, heir: TableView, group: GroupView, cluster: ClusterView) -> bool:
    """Whether the heir cannot get the dropped table's files any more: nodes purged them before it came back.

    Only with proof: its time is over, every agent was asked since then and answers, none has a folder that could still
    be taken over, and there is a bucket of which no node has anything. An agent on another disk than the node's proves
    nothing.
    """
    seen = cluster.observation
    purge_at = parse_time(record.purge_at)
    if purge_at is None or seen.now < purge_at or not seen.agent_views:
        return False
    if not cluster.disks_missing.isdisjoint(seen.agent_views):
        return False
    folders = {f"{record.namespace}/{directory}" for directory in record.directories}
    folders.discard(f"{record.namespace}/{heir.table.directory}")
    for view in seen.agent_views.values():
        report = view.report
        if report is None or view.silent_since is not None or not view.is_newer_than(purge_at):
            return False
        if not folders.isdisjoint((*report.recycled_directories, *report.unknown_directories)):
            return False
    buckets = group.group.spec.buckets if group.group.spec else 0
    return _lacks_a_bucket(heir.recovered_files, buckets, seen)


def _lacks_a_bucket(files: TableFiles, buckets: int, seen: Observation) -> bool:
    """Whether all agents were heard of the table, and there is a bucket of which none of them has anything."""
    table = files.table
    for view in seen.agent_views.values():
        if not has_heard(seen, view, table):
            return False
        found = view.tables.get((table.identity.namespace, table.directory))
        if found is not None and found.surplus_bytes and not found.manifest_present:
            return False  # it cannot say of which buckets its files are
    bucket_bytes, held, _ = holdings(GroupFiles((files,), buckets))
    found_somewhere = {bucket for states in held.values() for bucket in states}
    return any(size and bucket not in found_somewhere for bucket, size in enumerate(bucket_bytes))


def request_actions(view: GroupView, cluster: ClusterView, unclaimed: NodesOfFolders) -> Iterator[Action]:
    """Carry out, or refuse, what users ask of one group: with few requests, however many annotations it has."""
    group = view.group
    wanted: dict[str, RecycledTable] = {}
    refusals: dict[str, None] = {}
    ended: list[str] = []
    for request in sorted(group.recover_requests):
        record = next((one for one in group.status.recycled if _is_meant(one, request)), None)
        if record is None:
            problem: str | None = f"no dropped table with a uid {request}… is in the recycle bin of the group"
        else:
            problem = _problem(record, group, cluster, unclaimed)
        if problem:
            refusals[problem] = None
        if record is None or problem or (record.namespace, record.name) in cluster.by_name:
            ended.append(request)
        else:
            wanted[record.uid] = record
    for message in _announced(list(refusals)):
        yield PostEvent(GROUP_KIND, group.identity, "Warning", EventReason.RECOVER_REFUSED, message)
    if ended:
        yield EndRecoverRequests(group.identity, tuple(ended))
    for record in wanted.values():
        yield from _creation(group, record, unclaimed)


def _announced(refusals: Sequence[str]) -> Iterator[str]:
    yield from refusals[:MAX_REFUSAL_EVENTS]
    if len(refusals) > MAX_REFUSAL_EVENTS:
        yield f"{len(refusals) - MAX_REFUSAL_EVENTS} more requests to bring tables back were refused"


def _is_meant(record: RecycledTable, request: str) -> bool:
    """A request that is shorter than what commands write means no table in particular."""
    return len(request) >= REQUEST_DIGITS and record.uid.startswith(request)


def _problem(
    record: RecycledTable, group: ObservedGroup, cluster: ClusterView, unclaimed: NodesOfFolders
) -> str | None:
    """Why the table cannot be brought back."""
    name = f"{record.namespace}/{record.name}"
    if not allows(group, record.namespace):
        return f"table {name} is in a namespace that the group no longer allows; add it to allowedNamespaces"
    if record.snapshot is None:
        return f"table {name} was never loaded; create it again"
    existing = cluster.by_name.get((record.namespace, record.name))
    if existing is not None and existing.recovers != record.uid:
        return f"table {name} exists; drop or rename it before the one in the recycle bin can come back"
    purge_at = parse_time(record.purge_at)
    is_over = purge_at is not None and cluster.observation.now >= purge_at
    if existing is None and is_over and not cluster.observation.etcd_restored:
        return f"table {name} was purged at {record.purge_at}"
    others = () if existing or any(_folders_of(record, unclaimed)) else _other_folders(record, cluster, unclaimed)
    return f"no node that answers has a folder of table {name}{_hint(record, others)}" if others else None


def _creation(group: ObservedGroup, record: RecycledTable, unclaimed: NodesOfFolders) -> Iterator[CreateTable]:
    folders = tuple(_folders_of(record, unclaimed))
    if group.spec is not None and folders:
        reference = "" if group.private else group_reference(record.namespace, group.key)
        yield CreateTable(record, folders, reference, group.spec.replicas)


def _folders_of(record: RecycledTable, unclaimed: NodesOfFolders) -> Iterator[DroppedFolder]:
    """Of the nodes that answer."""
    for directory in record.directories:
        for _, url in unclaimed.get(f"{record.namespace}/{directory}", ()):
            yield DroppedFolder(url, directory)
