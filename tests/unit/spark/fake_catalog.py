"""A catalog in memory, with the API server's compare-and-set."""

import threading
from collections.abc import Sequence
from dataclasses import replace

from colocation.model.freshness import CURRENT
from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus
from colocation.model.table import ColocatedTableSpec, ColocatedTableStatus, TableSnapshot
from colocation.spark.catalog import AgentAddresses, GroupObject, NotInCatalog, TableObject, WriteConflict

NAMESPACE = "shop"
GROUP = "sales"


class FakeCatalog:
    """Tables and groups of one namespace. ``before_commit`` is called once, before the next compare-and-set."""

    def __init__(self, agents: dict[str, str] | None = None) -> None:
        self.tables: dict[str, TableObject] = {}
        self.groups: dict[str, GroupObject] = {}
        self.agents = agents or {}
        self.freshness = CURRENT
        self.before_commit = lambda: None
        self._lock = threading.Lock()

    def copy(self) -> "FakeCatalog":
        """Another catalog with the same objects."""
        other = FakeCatalog(dict(self.agents))
        other.tables, other.groups = dict(self.tables), dict(self.groups)
        return other

    def add_group(self, spec: ColocationGroupSpec, status: ColocationGroupStatus, name: str = GROUP) -> None:
        self.groups[name] = GroupObject(NAMESPACE, name, spec, status)

    def add_table(self, name: str, spec: ColocatedTableSpec, uid: str) -> None:
        status = ColocatedTableStatus(accepted=True)
        self.tables[name] = TableObject(NAMESPACE, name, uid, "1", spec, status)

    def change(self, name: str, **status: object) -> None:
        """Change a table's status, as any writer would: its resourceVersion grows."""
        table = self.tables[name]
        self.tables[name] = replace(
            table,
            resource_version=str(int(table.resource_version) + 1),
            status=table.status.model_copy(update=status),
        )

    def get_table(self, namespace: str, name: str) -> TableObject:
        if namespace != NAMESPACE or name not in self.tables:
            raise NotInCatalog(f"ColocatedTable {namespace}/{name} does not exist")
        return self.tables[name]

    def get_group(self, namespace: str, group: str) -> GroupObject:
        if namespace != NAMESPACE or group not in self.groups:
            raise NotInCatalog(f"ColocationGroup {namespace}/{group} does not exist")
        return self.groups[group]

    def get_agents(self, namespace: str, group: str) -> AgentAddresses:
        self.get_group(namespace, group)
        return AgentAddresses(self.agents, self.freshness)

    def commit(self, table: TableObject, snapshot: TableSnapshot, history: Sequence[TableSnapshot]) -> None:
        interrupt, self.before_commit = self.before_commit, lambda: None
        interrupt()
        with self._lock:
            current = self.tables[table.name]
            if (current.resource_version, current.uid) != (table.resource_version, table.uid):
                raise WriteConflict(f"ColocatedTable {table.name} was changed by someone else")
            self.change(table.name, snapshot=snapshot, history=tuple(history))
