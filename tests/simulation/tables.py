"""What users do to tables: other groups, drops, recoveries; and the bins' own clock."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from colocation.kube.api import GROUPS, TABLES
from colocation.model.names import RECOVER_PREFIX, table_directory

from .disks import Manifest

if TYPE_CHECKING:
    from .world import World

NAMESPACE = "shop"
FEWEST_TABLES = 1


def directory_of(table: dict[str, Any]) -> str:
    return table_directory(table["metadata"]["name"], table["metadata"]["uid"])


def group_of(table: dict[str, Any]) -> str:
    """The group that places the table."""
    return str(table.get("status", {}).get("group") or table["spec"]["colocateWith"])


class TableChanges:
    """Faults that are users' doings. None of them may lose a row that is not to be lost."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._places: dict[str, str] = {}

    def move(self) -> None:
        """A table is to be in another group of the same schema, or back in the first one."""
        world = self._world
        tables = [table for table in world.tables() if "replicas" not in table["spec"]]
        if not tables:
            return
        table = world.random.choice(tables)
        groups = {group["metadata"]["name"]: group["spec"]["buckets"] for group in world.groups()}
        fitting = sorted(name for name, buckets in groups.items() if buckets == groups[group_of(table)])
        patch = {"spec": {"colocateWith": world.random.choice(fitting)}}
        world.api.merge(TABLES, NAMESPACE, table["metadata"]["name"], patch)

    def moved(self, table: dict[str, Any]) -> Manifest:
        """The files of a table that another group places since now."""
        uid, place = table["metadata"]["uid"], table.get("status", {}).get("group")
        before, self._places[uid] = self._places.get(uid), place
        known = any(one["metadata"]["uid"] == uid for one in self._world.tables())
        return self._world.committed_of(table) if known and before != place else frozenset()

    def drop(self) -> None:
        """`kubectl delete ct`; not the last one."""
        world = self._world
        tables = world.tables()
        if len(tables) <= FEWEST_TABLES:
            return
        table = world.random.choice(tables)
        if table.get("status", {}).get("snapshot") and table["status"].get("group"):
            seconds = table["spec"].get("recycleAfterSeconds", 86400)
            world.keep_until[directory_of(table)] = world.clock.now() + timedelta(seconds=seconds)
        world.api.remove(TABLES, NAMESPACE, table["metadata"]["name"])

    def recover(self) -> None:
        """`colocation recover` of any table that is in a bin."""
        world = self._world
        records = self._records()
        if records:
            self._ask(*world.random.choice(records))

    def recover_all(self) -> None:
        """Everything that is in a bin."""
        for group, record in self._records():
            self._ask(group, record)

    def _records(self) -> list[tuple[str, dict[str, Any]]]:
        """(group, what it remembers of a dropped table)."""
        groups = [(group["metadata"]["name"], group.get("status", {})) for group in self._world.groups()]
        return [(name, record) for name, status in groups for record in status.get("recycled", ())]

    def _ask(self, group: str, record: dict[str, Any]) -> None:
        annotations = {f"{RECOVER_PREFIX}{record['uid'][:8]}": record["name"]}
        self._world.api.merge(GROUPS, NAMESPACE, group, {"metadata": {"annotations": annotations}})

    def purge(self) -> None:
        """Every agent that runs deletes what has waited for long enough."""
        world = self._world
        for node, disk in world.disks.items():
            for key, recycled in list(disk.bin.items()):
                if node not in world.down and world.clock.now() >= recycled.purge_at:
                    world.checks.before_purge(key)
                    del disk.bin[key]

    def keeps_dropped(self, node: str) -> bool:
        """Whether the node may hold the last files of a dropped table."""
        disk, live = self._world.disks[node], {directory_of(table) for table in self._world.tables()}
        return bool(disk.bin) or any(file.directory not in live for file in disk.files)

    def settle(self) -> None:
        """Users give up what cannot come back."""
        for table in self._world.tables():
            conditions = table.get("status", {}).get("conditions", ())
            if any(one["reason"] == "Purged" for one in conditions):
                self._world.api.remove(TABLES, NAMESPACE, table["metadata"]["name"])
