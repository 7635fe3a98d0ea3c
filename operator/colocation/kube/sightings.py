"""When this operator first saw what it sees: evidence counts from then on, and not from what others' clocks say."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..state.agent_view import AgentView
from ..state.objects import ObservedGroup, ObservedTable

RECENT = timedelta(minutes=5)
"""How long it is remembered when a snapshot was first seen."""
FENCE_RECENT = timedelta(minutes=1)

_Fence = tuple[int | None, tuple[tuple[str, bool], ...]]
"""(map version, the members' uids and whether they are leaving): see ``reconcile.evidence``."""


@dataclass(frozen=True)
class Seen:
    """See the fields of the same names of ``Observation``."""

    started_at: datetime | None
    snapshots_seen_at: Mapping[str, datetime]
    tables_seen_at: Mapping[str, datetime]


class Sightings:
    """What was seen, and since when.

    Tables that were there at the start have been seen since the start. A snapshot counts from the first look, which is
    after the first questions: it may have been committed since they were put.
    """

    def __init__(self) -> None:
        self._started_at: datetime | None = None
        self._looked = False
        self._groups: tuple[ObservedGroup, ...] = ()
        self._tables: tuple[ObservedTable, ...] = ()
        self._fences: dict[str, _Fence] = {}
        self._manifests: dict[str, str | None] = {}
        self._snapshots_seen_at: dict[str, datetime] = {}
        self._tables_seen_at: dict[str, datetime] = {}
        self._ask_after: dict[str, datetime] = {}
        self._ask_all_after: datetime | None = None

    def begin(self, now: datetime) -> datetime:
        """The operator is about to ask agents; the first time is its start, which is returned."""
        self._started_at = self._started_at or now
        return self._started_at

    def look(self, groups: tuple[ObservedGroup, ...], tables: tuple[ObservedTable, ...], now: datetime) -> Seen:
        """See these objects."""
        if tables is not self._tables or not self._looked:
            self._look_at_tables(tables, now)
        if groups is not self._groups or not self._looked:
            self._look_at_groups(groups, now)
        self._looked = True
        self._snapshots_seen_at = {uid: at for uid, at in self._snapshots_seen_at.items() if now - at <= RECENT}
        self._ask_after = {node: at for node, at in self._ask_after.items() if now - at <= FENCE_RECENT}
        return Seen(self._started_at, dict(self._snapshots_seen_at), dict(self._tables_seen_at))

    def nodes_to_ask_again(self, views: Mapping[str, AgentView]) -> frozenset[str]:
        """Nodes on whose answer something waits, that has happened since they were last asked.

        Deletions wait until every node of a map has answered since the map is in place (``reconcile.evidence``); a
        table that is brought back waits for all nodes.
        """
        nodes = {node for node, at in self._ask_after.items() if node in views and not views[node].is_newer_than(at)}
        if self._ask_all_after is not None:
            nodes |= {node for node, view in views.items() if not view.is_newer_than(self._ask_all_after)}
        return frozenset(nodes)

    def _look_at_tables(self, tables: tuple[ObservedTable, ...], now: datetime) -> None:
        manifests = {table.identity.uid: table.reference.manifest for table in tables}
        before = self._manifests
        for uid, manifest in manifests.items():
            if manifest is not None and before.get(uid) != manifest:
                self._snapshots_seen_at[uid] = now
        if self._looked:
            for uid in manifests.keys() - before.keys():
                self._tables_seen_at[uid] = now
        for uid in before.keys() - manifests.keys():
            self._tables_seen_at.pop(uid, None)
            self._snapshots_seen_at.pop(uid, None)
        recovering = [self._tables_seen_at.get(table.identity.uid) for table in tables if table.is_recovering]
        self._ask_all_after = max(filter(None, [*recovering, self._started_at if recovering else None]), default=None)
        self._manifests, self._tables = manifests, tables

    def _look_at_groups(self, groups: tuple[ObservedGroup, ...], now: datetime) -> None:
        fences: dict[str, _Fence] = {}
        for group in groups:
            status, uid = group.status, group.identity.uid
            fences[uid] = (status.map_version, tuple((member.uid, member.leaving) for member in status.members))
            if self._fences.get(uid) != fences[uid]:
                rows = status.backends_per_bucket_seq or ()
                self._ask_after.update({node: now for row in rows for node in row})
        self._fences, self._groups = fences, groups
