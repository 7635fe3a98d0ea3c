"""Decides which folders of tables that are gone go into the recycle bins, and when too many would go at once.

A folder is explained when a group remembers its table as dropped: a user wanted that. Any other folder without a table
may be the sign of something worse: objects lost by a restore of etcd or by CRDs applied again. Such folders wait for a
while; and when they are more than a small share of all, or hold more than a small share of all bytes, none goes until
an administrator allows it (the brake): of all, by a number, or of one by its name, which holds the table's uid. A few
may always go, unless they are most of what there is: a small cluster that lost its objects is small, too. What was
discarded by name counts as any other: what was lost together with it must not become few by that.

A drop counts at once, but not many at once: who deletes the CRDs deletes the tables a moment before the groups that
remember them. Where more tables went within ``DROP_WINDOW`` than a few, and than a small share of all, their folders
wait for that long. If their groups go meanwhile, they are unexplained.

Nothing goes from a disk that is not the node's, as far as groups know it, until somebody accepts it.

Safety invariant: within ``BRAKE_WINDOW`` no more unexplained folders go than the brake lets through, and no more bytes
as far as agents tell them, but for those that an admin has named.
"""

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ..model.group import RecycledTable
from ..model.table import ColocatedTableSpec
from ..state.agent_view import AgentView
from ..state.parse import parse_time
from ..state.views import ClusterView
from .actions import RecycleTable
from .evidence import Evidence, proof_of_folder
from .policy import Policy
from .recovery import REQUEST_DIGITS

DEFAULT_RECYCLE_SECONDS: int = ColocatedTableSpec.model_fields["recycle_after_seconds"].default
"""Of folders of which no group knows how long they are to be kept."""
FEW_FOLDERS = 10
FEW_BYTES = 1 << 30
FEW_TABLES = 10
DROP_WINDOW = timedelta(minutes=10)
MAX_UNEXPLAINED_SHARE = 0.05
"""Of all table folders on all nodes, and of the bytes in them."""


@dataclass(frozen=True)
class Brake:
    """What wants to go, and what there is: table folders on all nodes, and bytes as far as agents tell them."""

    folders: int
    known: int
    size_bytes: int
    known_bytes: int

    @property
    def allowed(self) -> int:
        """So many folders may go at once."""
        return _small_share(self.folders, self.known, FEW_FOLDERS)

    @property
    def allowed_bytes(self) -> int:
        """So many bytes may go at once."""
        return _small_share(self.size_bytes, self.known_bytes, FEW_BYTES)

    @property
    def holds_by_bytes(self) -> bool:
        """Whether the folders are few, and their bytes are not."""
        return self.folders <= self.allowed and self.size_bytes > self.allowed_bytes

    def holds(self, policy: Policy) -> bool:
        """Whether nothing of it may go. A number of folders that somebody allows counts whatever is in them."""
        if policy.max_unexplained_folders is not None:
            return self.folders > policy.max_unexplained_folders
        return self.folders > self.allowed or self.holds_by_bytes


def _small_share(wanted: int, known: int, few: int) -> int:
    """How much may go, of so much that wants to, where so much is known."""
    return max(few if 2 * wanted <= known else 0, int(known * MAX_UNEXPLAINED_SHARE))


@dataclass(frozen=True)
class Withheld:
    """Unexplained folders of which none goes, as they are too many. ``allowed``: so many may go.

    ``tables``: '<namespace>/<directory>' of them, each once; only those of ``namespace`` if there is one.
    ``by_bytes``: they are few, and too much is in them.
    """

    brake: Brake
    allowed: int
    tables: tuple[str, ...]
    by_bytes: bool = False
    namespace: str = ""

    @property
    def folders(self) -> int:
        """How many they are."""
        return self.brake.folders

    def within(self, namespace: str) -> "Withheld | None":
        """The same for readers of one namespace: of others' tables they learn the number of folders only."""
        tables = tuple(path for path in self.tables if path.partition("/")[0] == namespace)
        return replace(self, tables=tables, namespace=namespace) if tables else None

    @property
    def message(self) -> str:
        """What is withheld and what to do, for people."""
        listed = ", ".join(self.tables[:5]) + (", …" if len(self.tables) > 5 else "")
        place = f" of namespace {self.namespace}" if self.namespace else ""
        brake, share, allowed = self.brake, "", str(self.allowed)
        if self.by_bytes:
            share = f", with {100 * brake.size_bytes // brake.known_bytes} % of all bytes,"
            allowed = f"{100 * MAX_UNEXPLAINED_SHARE:g} % of the bytes"
        return (
            f"{brake.folders} of {brake.known} table folders on the nodes{share} belong to no table, and no group "
            f"remembers that they were dropped ({len(self.tables)} tables{place}: {listed}); at most {allowed} go at "
            "once, so none does. If the objects were lost, `colocation adopt` makes them again; if they were deleted "
            "on purpose, for example with their namespace, `colocation adopt --discard` lets the files go"
        )


@dataclass(frozen=True)
class Recycling:
    """The folders that go now, and what is withheld. ``is_waiting``: others go with the clock alone."""

    actions: tuple[RecycleTable, ...]
    withheld: Withheld | None
    is_waiting: bool = False


def recycling(cluster: ClusterView, recycled: Iterable[RecycledTable], evidence: Evidence, policy: Policy) -> Recycling:
    """Folders of tables that are gone go to the recycle bin of their node.

    ``recycled``: the dropped tables as their groups remember them after this pass. Folders that a table takes over
    just now stay.
    """
    known = tuple(recycled)
    records = {f"{record.namespace}/{folder}": record for record in known for folder in record.directories}
    dropped: list[RecycleTable] = []
    unexplained: list[RecycleTable] = []
    for action in _unknown_folders(cluster, records):
        (dropped if action.is_explained else unexplained).append(action)
    many = _dropped_with_many(cluster, known) if dropped else frozenset()
    gone = [action for action in dropped if action.proof.table_uid not in many]
    brake, withheld = _brake(cluster, unexplained, evidence), None
    if brake.holds(policy):
        named = {(node.name, path) for node in cluster.observation.nodes for path in node.discarded_folders}
        withheld = _withheld(brake, policy, {_path(one) for one in unexplained if (one.node, _path(one)) not in named})
        unexplained = [one for one in unexplained if (one.node, _path(one)) in named]
    now = cluster.observation.now
    due = [one for one in unexplained if evidence.is_unknown_for(one, now, policy.unknown_folder_seconds)]
    return Recycling((*gone, *due), withheld, len(due) < len(unexplained) or len(gone) < len(dropped))


def _dropped_with_many(cluster: ClusterView, records: Collection[RecycledTable]) -> frozenset[str]:
    """Uids of dropped tables whose folders wait, as too many were dropped lately; not of those that are asked back."""
    now = cluster.observation.now
    lately = [record for record in records if not record.recovery_uids and _is_fresh(record, now)]
    allowed = int((len(cluster.observation.tables) + len(lately)) * MAX_UNEXPLAINED_SHARE)
    if len(lately) <= max(FEW_TABLES, allowed):
        return frozenset()
    asked = {request[:REQUEST_DIGITS] for group in cluster.observation.groups for request in group.recover_requests}
    return frozenset(record.uid for record in lately if record.uid[:REQUEST_DIGITS] not in asked)


def _is_fresh(record: RecycledTable, now: datetime) -> bool:
    """Whether it was dropped just now. Not if it is kept for little longer: what is over is forgotten, and withheld."""
    dropped_at, purge_at = parse_time(record.deleted_at), parse_time(record.purge_at)
    if dropped_at is None or purge_at is None or purge_at - dropped_at < 2 * DROP_WINDOW:
        return False
    return timedelta(0) <= now - dropped_at < DROP_WINDOW


def _withheld(brake: Brake, policy: Policy, paths: Collection[str]) -> Withheld | None:
    by_number = policy.max_unexplained_folders
    allowed = brake.allowed if by_number is None else by_number
    is_by_bytes = by_number is None and brake.holds_by_bytes
    return Withheld(brake, allowed, tuple(sorted(paths)), is_by_bytes) if paths else None


def _path(action: RecycleTable) -> str:
    return f"{action.namespace}/{action.directory}"


def _brake(cluster: ClusterView, unexplained: Collection[RecycleTable], evidence: Evidence) -> Brake:
    """Bytes are only added up where some want to go: there are many."""
    missing = cluster.disks_missing if unexplained else ()
    views = [view for node, view in cluster.observation.agent_views.items() if node not in missing]
    gone = evidence.unexplained_in_window(cluster.observation)
    size_bytes = sum(one.size_bytes for one in unexplained) + sum(gone)
    return Brake(
        folders=len(unexplained) + len(gone),
        known=sum(map(_folders, views)),
        size_bytes=size_bytes,
        known_bytes=sum(map(_bytes, views)) if size_bytes else 0,
    )


def _folders(view: AgentView) -> int:
    return len(view.tables) + (len(view.report.unknown_directories) if view.report else 0)


def _bytes(view: AgentView) -> int:
    held = sum(
        report.surplus_bytes + sum(bucket.bytes_held for bucket in report.buckets.values())
        for report in view.tables.values()
    )
    return held + (sum(view.report.unknown_bytes.values()) if view.report else 0)


def _unknown_folders(cluster: ClusterView, records: dict[str, RecycledTable]) -> Iterator[RecycleTable]:
    observation = cluster.observation
    for node, url, view, report in observation.answering:
        if node in cluster.disks_missing:
            continue
        for path in report.unknown_directories:
            namespace, _, directory = path.partition("/")
            record, key = records.get(path), (namespace, directory)
            proof = proof_of_folder(observation, view, record.uid if record else directory.rpartition("-")[2])
            if proof and key not in view.asked and key not in cluster.by_folder and not _returns(cluster, record):
                keep_seconds = _keep_seconds(record, observation.now) if record else DEFAULT_RECYCLE_SECONDS
                size_bytes = max(0, report.unknown_bytes.get(path, 0))
                yield RecycleTable(node, url, *key, keep_seconds, proof, record is not None, size_bytes)


def _returns(cluster: ClusterView, record: RecycledTable | None) -> bool:
    """Whether a table waits for the files of the dropped one."""
    if record is None:
        return False
    heir = cluster.heirs.get((record.namespace, record.name, record.uid))
    return heir is not None and heir.table.is_recovering


def _keep_seconds(record: RecycledTable, now: datetime) -> int:
    """How much longer a dropped table's files are kept."""
    purge_at = parse_time(record.purge_at)
    return max(0, math.ceil((purge_at - now).total_seconds())) if purge_at else 0
