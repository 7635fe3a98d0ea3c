"""A namespace's objects in memory, with an API server's compare-and-set; ``catalog_server`` serves them."""

import threading
from dataclasses import dataclass, replace
from typing import Any

from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus
from colocation.model.names import table_directory
from colocation.model.table import ColocatedTableSpec, ColocatedTableStatus

NAMESPACE = "shop"
GROUP = "sales"


@dataclass(frozen=True)
class TableObject:
    """A ColocatedTable as it was at ``resource_version``."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    spec: ColocatedTableSpec
    status: ColocatedTableStatus

    @property
    def directory(self) -> str:
        """Its folder below the namespace's."""
        return table_directory(self.name, self.uid)


@dataclass(frozen=True)
class GroupObject:
    """A ColocationGroup."""

    namespace: str
    name: str
    spec: ColocationGroupSpec
    status: ColocationGroupStatus


class FakeCatalog:
    """Tables and groups of one namespace. ``before_commit`` is called once, before the next compare-and-set."""

    def __init__(self, agents: dict[str, str] | None = None) -> None:
        self.tables: dict[str, TableObject] = {}
        self.groups: dict[str, GroupObject] = {}
        self.agents = agents or {}
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

    def get_agents(self) -> dict[str, str]:
        """URLs of the ready agents, as in a group's ConfigMap."""
        return self.agents

    def patch_status(self, name: str, patch: dict[str, Any]) -> bool:
        """A merge patch of a table's status; False when the table is another one by now."""
        interrupt, self.before_commit = self.before_commit, lambda: None
        interrupt()
        with self._lock:
            current = self.tables[name]
            if patch["metadata"] != {"resourceVersion": current.resource_version, "uid": current.uid}:
                return False
            merged = {**current.status.to_json_dict(), **patch["status"]}
            status = ColocatedTableStatus.model_validate(merged)
            self.change(name, **{field: getattr(status, field) for field in type(status).model_fields})
            return True
