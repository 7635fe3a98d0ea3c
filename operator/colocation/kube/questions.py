"""Which tables each agent is asked about: those that its node should hold, and those that lie there.

A node should hold the tables of the groups whose map names it, and those that a clone Job copies to it. What else is
there the agent tells (``unknown_directories``): from then on it is asked about that too. Kept up to date from what
has changed, so that a commit costs as much as the nodes of its table, and not all nodes times all tables.
"""

from collections.abc import Iterable, Iterator, Mapping

from ..model.agent import AskedTable, TableReport
from ..model.group import GroupMember
from ..model.names import group_key
from ..state.agent_view import AgentView, TableKey, key_of
from ..state.clone_jobs import transfer_name
from ..state.objects import ObservedCloneJob, ObservedGroup, ObservedTable
from ..state.placement import Records, recycled_records, reference_of
from .conversation import Asked
from .manifest_memory import BytesKey

GroupKey = tuple[str, str]
_Keys = dict[TableKey, None]
"""An ordered set: passes are deterministic."""


class Questions:
    """The questions to all agents, by node. A question that has not changed stays the same object."""

    def __init__(self) -> None:
        self.asked: dict[str, Asked] = {}
        self._inputs: tuple[object, ...] = ()
        self._groups: dict[GroupKey, ObservedGroup] = {}
        self._tables: dict[str, ObservedTable] = {}
        self._keys: dict[str, TableKey] = {}
        self._live: dict[TableKey, AskedTable] = {}
        self._recovering: set[str] = set()
        self._members: dict[GroupKey, _Keys] = {}
        self._group_of: dict[TableKey, GroupKey] = {}
        self._remembered: dict[GroupKey, frozenset[str]] = {}
        self._placed_by: dict[str, GroupKey] = {}
        self._moved: set[str] = set()
        self._maps: dict[GroupKey, frozenset[str]] = {}
        self._groups_of: dict[str, dict[GroupKey, None]] = {}
        self._transfers: dict[GroupKey, TableKey] = {}
        self._targets: dict[str, _Keys] = {}
        self._found: dict[str, _Keys] = {}
        self._views: dict[str, AgentView] = {}
        self._listed_by: dict[TableKey, dict[str, None]] = {}
        self._forgotten: set[BytesKey] = set()
        self._reshaped: dict[str, None] = {}
        self._revalued: dict[str, _Keys] = {}

    @property
    def live_manifests(self) -> Iterator[BytesKey]:
        """(namespace, directory, manifest) of every table that has one."""
        return (key for one in self._live.values() if (key := _bytes_key(one)))

    def forgotten_manifests(self) -> set[BytesKey]:
        """Those that were wanted when this was last called, and are not any more."""
        forgotten, self._forgotten = self._forgotten, set()
        return forgotten

    def update(
        self,
        groups: tuple[ObservedGroup, ...],
        tables: tuple[ObservedTable, ...],
        jobs: tuple[ObservedCloneJob, ...],
        views: Mapping[str, AgentView],
    ) -> bool:
        """Take the cluster as it is now; whether any question has changed.

        Objects that have not changed are the same objects as in the last call, tuples of them too.
        """
        inputs = (groups, tables, jobs)
        if any(now is not before for now, before in zip(inputs, self._inputs or (None, None, None), strict=True)):
            changed_groups = self._take_groups(groups)
            self._take_tables(tables, changed_groups)
            self._take_jobs(jobs)
            self._inputs = inputs
        self._take_views(views)
        changed = [node for node in {**self._reshaped, **self._revalued} if self._ask_again(node)]
        self._reshaped, self._revalued = {}, {}
        return bool(changed)

    # Groups

    def _take_groups(self, groups: tuple[ObservedGroup, ...]) -> set[GroupKey]:
        """Learn the maps; the groups that have changed in any way."""
        now = {group.key: group for group in groups}
        changed = {key for key, group in now.items() if self._groups.get(key) is not group}
        changed |= self._groups.keys() - now.keys()
        self._groups = now
        for key in sorted(changed):
            rows = now[key].status.backends_per_bucket_seq if key in now else None
            self._take_memory(key, now[key].status.members if key in now else ())
            self._take_map(key, frozenset(node for row in rows or () for node in row))
        return changed

    def _take_memory(self, key: GroupKey, members: tuple[GroupMember, ...]) -> None:
        """A table is in the group that remembers it, whatever its own status claims (see ``state.placement``)."""
        before = self._remembered.get(key, frozenset())
        staying = frozenset(member.uid for member in members if not member.leaving)
        self._moved |= before ^ staying
        for uid in before:
            if self._placed_by.get(uid) == key:
                del self._placed_by[uid]
        self._placed_by |= dict.fromkeys(staying, key)
        self._remembered[key] = staying
        if not staying:
            del self._remembered[key]

    def _group_of_table(self, table: ObservedTable) -> GroupKey:
        return self._placed_by.get(table.identity.uid) or _group_named_by(table)

    def _take_map(self, key: GroupKey, nodes: frozenset[str]) -> None:
        before = self._maps.get(key, frozenset())
        for node in sorted(nodes ^ before):
            self._reshaped[node] = None
            groups = self._groups_of.setdefault(node, {})
            if node in nodes:
                groups[key] = None
            else:
                groups.pop(key, None)
                self._keep_what_is_there(node, self._members.get(key, {}))
            if not groups:
                del self._groups_of[node]
        self._maps[key] = nodes
        if not nodes:
            del self._maps[key]

    # Tables

    def _take_tables(self, tables: tuple[ObservedTable, ...], changed_groups: set[GroupKey]) -> None:
        changed = [table for table in tables if self._tables.get(table.identity.uid) is not table]
        for table in changed:
            self._tables[table.identity.uid] = table
            key = (table.identity.namespace, table.directory)
            self._keys[table.identity.uid] = self._transfers[_transfer_of(key, table.identity.uid)] = key
        if len(self._tables) != len(tables):
            for uid in self._tables.keys() - {table.identity.uid for table in tables}:
                self._remove_table(uid)
        self._recovering = {
            uid for uid in (*self._recovering, *(table.identity.uid for table in changed)) if self._is_recovering(uid)
        }
        uids = dict.fromkeys(table.identity.uid for table in changed)
        uids |= dict.fromkeys(sorted(self._recovering))
        for group in sorted(changed_groups):
            uids |= dict.fromkeys(self._live[key].uid for key in self._members.get(group, ()))
        uids |= dict.fromkeys(sorted(uid for uid in self._moved if uid in self._tables))
        self._moved = set()
        records = recycled_records(self._groups.values()) if self._recovering else {}
        for uid in uids:
            self._take_table(self._tables[uid], self._asked_about(self._tables[uid], records))

    def _is_recovering(self, uid: str) -> bool:
        return uid in self._tables and self._tables[uid].is_recovering

    def _asked_about(self, table: ObservedTable, records: Records) -> AskedTable:
        group = self._groups.get(self._group_of_table(table))
        return AskedTable(
            reference=reference_of(table, records),
            uid=table.identity.uid,
            group_uid=group.identity.uid if group else None,
            map_version=(group.status.map_version or 0) if group else 0,
        )

    def _take_table(self, table: ObservedTable, asked: AskedTable) -> None:
        key, group = self._keys[table.identity.uid], self._group_of_table(table)
        before = self._live.get(key)
        if self._group_of.get(key) != group:
            self._leave_group(key)
            self._group_of[key] = group
            self._members.setdefault(group, {})[key] = None
            self._reshaped |= dict.fromkeys(sorted(self._maps.get(group, ())))
        if before == asked:
            return
        self._live[key] = asked
        if before is None:
            for node in self._listed_by.get(key, ()):
                self._find(node, (key,))
        elif before.reference.manifest != asked.reference.manifest:
            self._forget_manifest(before)
        for node in self._nodes_asked_about(key):
            self._revalued.setdefault(node, {})[key] = None

    def _remove_table(self, uid: str) -> None:
        del self._tables[uid]
        key = self._keys.pop(uid)
        transfer = _transfer_of(key, uid)
        if self._transfers.get(transfer) == key:  # another table's uid may begin alike
            del self._transfers[transfer]
        self._reshaped |= dict.fromkeys(self._nodes_asked_about(key))
        self._leave_group(key)
        self._forget_manifest(self._live.pop(key))

    def _leave_group(self, key: TableKey) -> None:
        group = self._group_of.pop(key, None)
        if group is None:
            return
        members = self._members[group]
        del members[key]
        if not members:
            del self._members[group]
        for node in sorted(self._maps.get(group, ())):
            self._reshaped[node] = None
            self._keep_what_is_there(node, (key,))

    def _forget_manifest(self, asked: AskedTable) -> None:
        if forgotten := _bytes_key(asked):
            self._forgotten.add(forgotten)

    def _nodes_asked_about(self, key: TableKey) -> Iterator[str]:
        """Where the table should be, or was found."""
        yield from sorted(self._maps.get(self._group_of.get(key, _NO_GROUP), ()))
        yield from (node for node, keys in self._targets.items() if key in keys)
        yield from (node for node, keys in self._found.items() if key in keys)

    # Clone Jobs, and what agents find

    def _take_jobs(self, jobs: tuple[ObservedCloneJob, ...]) -> None:
        targets: dict[str, _Keys] = {}
        for job in jobs:
            group = (job.group_namespace, job.group)
            keys = {self._transfers[group]: None} if group in self._transfers else self._members.get(group, {})
            targets.setdefault(job.target, {}).update(keys)
        for node in sorted(targets.keys() | self._targets.keys()):
            if targets.get(node) != self._targets.get(node):
                self._reshaped[node] = None
                self._keep_what_is_there(node, self._targets.get(node, {}))
        self._targets = targets

    def _take_views(self, views: Mapping[str, AgentView]) -> None:
        for node in self._views.keys() - views.keys():
            self._list(node, self._views[node], AgentView())
            self._found.pop(node, None)
            self._reshaped[node] = None
        for node, view in views.items():
            before = self._views.get(node, AgentView())
            if _paths(before) is not _paths(view):
                self._list(node, before, view)
        self._views = dict(views)

    def _list(self, node: str, before: AgentView, view: AgentView) -> None:
        """Learn which folders lie on the node that its agent was not asked about."""
        old, new = _listed(before), _listed(view)
        for key in old.keys() - new.keys():
            nodes = self._listed_by[key]
            del nodes[node]
            if not nodes:
                del self._listed_by[key]
        for key in new:
            self._listed_by.setdefault(key, {})[node] = None
        self._find(node, (key for key in new if key in self._live))

    def _find(self, node: str, keys: Iterable[TableKey]) -> None:
        found = self._found.get(node, {})
        more = [key for key in keys if key not in found]
        if more:
            self._found[node] = found | dict.fromkeys(more)
            self._reshaped[node] = None

    def _keep_what_is_there(self, node: str, keys: Iterable[TableKey]) -> None:
        """Go on asking about tables that need not be on the node any more, while it holds anything of them."""
        view = self._views.get(node, AgentView())
        self._find(node, [key for key in keys if key in view.asked and _is_something(view.tables.get(key))])

    # Questions

    def _ask_again(self, node: str) -> bool:
        """Make the node's question; whether it is another one."""
        before = self.asked.get(node, {})
        if node not in self._reshaped:
            keys = self._revalued[node]
            self.asked[node] = {**before, **{key: self._live[key] for key in keys}}
            return True
        wanted: _Keys = {}
        for group in self._groups_of.get(node, ()):
            wanted |= self._members.get(group, {})
        wanted |= self._targets.get(node, {})
        wanted |= self._found.get(node, {})
        found = self._found.get(node)
        if found is not None:
            self._found[node] = {key: None for key in found if key in self._live}
        question = {key: self._live[key] for key in wanted if key in self._live}
        if question.keys() == before.keys() and all(before[key] is one for key, one in question.items()):
            return False
        if question:
            self.asked[node] = question
        else:
            self.asked.pop(node, None)
        return True


_NO_GROUP: GroupKey = ("", "")


def _transfer_of(key: TableKey, uid: str) -> GroupKey:
    """What stands for a group in Jobs that copy the table to its next one."""
    return key[0], transfer_name(uid)


def _group_named_by(table: ObservedTable) -> GroupKey:
    """The group that the table's status names: it places a table that no group remembers yet."""
    return group_key(table.identity.namespace, table.status.group) if table.status.group else _NO_GROUP


def _paths(view: AgentView) -> tuple[str, ...]:
    return view.report.unknown_directories if view.report else ()


def _listed(view: AgentView) -> _Keys:
    return {(namespace, directory): None for namespace, _, directory in (path.partition("/") for path in _paths(view))}


def _is_something(report: TableReport | None) -> bool:
    """Whether a node holds anything of a table; True while it is not known."""
    if report is None:
        return True
    held = any(bucket.files_held for bucket in report.buckets.values())
    return held or report.manifest_present or report.surplus_bytes > 0


def _bytes_key(asked: AskedTable) -> BytesKey | None:
    manifest = asked.reference.manifest
    return (*key_of(asked.reference), manifest) if manifest else None
