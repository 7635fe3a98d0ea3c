"""What users do to groups and tables: all fields, moves, drops, recoveries, and what hostile tenants try."""

import asyncio
from typing import TYPE_CHECKING, Any

from colocation.kube.api import GROUPS, TABLES, NotFound
from colocation.model.names import (
    ANNOTATION_MARKED_UNSTABLE,
    ANNOTATION_RECOVERS,
    LABEL_DRAIN,
    LABEL_PRIVATE,
    LABEL_WEIGHT,
    LABEL_ZONE,
    RECOVER_PREFIX,
    group_reference,
    table_directory,
)

from .api import JsonObject
from .checks import Dropped
from .disks import files_in
from .loads import CHANGES, Load, roll_back
from .world import NAMESPACES_OF_TENANTS, World, directory_of, placing_key

if TYPE_CHECKING:
    from random import Random

SHOP, STOCK = NAMESPACES_OF_TENANTS
MOST_TABLES = 6
MOST_LOOKS = 60
"""For a table that is to come back, one each second."""
HOSTILE_VALUES: tuple[Any, ...] = (
    "x", -1, 10**30, [], {}, [{}], {"manifest": "x"}, "soon", True, "../../etc", 0.5, ["*"],
)  # fmt: skip
HOSTILE_FIELDS = (
    "snapshot", "history", "group", "groupId", "buckets", "replicas", "columns", "accepted", "conditions",
    "observedGeneration",
)  # fmt: skip


class Users:
    """All users of the cluster. ``loads``: those that run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random: Random = world.random
        self.loads: set[asyncio.Task[None]] = set()

    # Groups and tables

    def make_group(self, name: str, namespace: str = SHOP, **fields: Any) -> None:
        """A group; without fields, of any kind."""
        spec: JsonObject = {"bucketKey": ["bigint"], "deletionPolicy": "Retain", **fields}
        self._world.api.add(GROUPS, namespace, {"metadata": {"name": name}, "spec": spec})

    def make_table(self, name: str, group: str = "", namespace: str = SHOP, **fields: Any) -> None:
        """A table in a group, or in none."""
        columns = [{"name": "key", "type": "bigint"}]
        spec: JsonObject = {"colocateWith": group, "columns": columns, "bucketedBy": ["key"], **fields}
        self._world.api.add(TABLES, namespace, {"metadata": {"name": name}, "spec": spec})

    def make_any_group(self, name: str) -> None:
        """With any of its features, and tables in it: its own, a foreign one, one that comes without a group."""
        choice, random = self._random.choice, self._random
        fields: JsonObject = {"buckets": choice([1, 2, 3, 4, 6]), "replicas": choice([1, 2, 2, 2, 3])}
        fields["relocation"] = {"downToleranceSeconds": choice([0, 60, 300])}
        fields["topologyKey"] = choice(["", LABEL_ZONE])
        fields["balancing"] = {"strict": random.random() < 0.1, "maxConcurrentClones": choice([1, 4])}
        fields["deletionPolicy"] = choice(["Retain", "WithLastTable"])
        if random.random() < 0.2:
            fields["allowedNamespaces"] = [choice(["*", STOCK])]
        if random.random() < 0.15:
            fields["nodeSelector"] = {"disks": "fast"}
        self.make_group(name, **fields)
        for number in range(choice([1, 2, 2])):
            self.make_any_table(f"{name}-{number}", name)
        if fields.get("allowedNamespaces"):
            self.make_any_table(f"{name}-foreign", f"{SHOP}/{name}", STOCK)

    def make_any_table(self, name: str, group: str, namespace: str = SHOP, **fields: Any) -> None:
        choice = self._random.choice
        retention = {"seconds": choice([0, 120, 86400]), "snapshots": choice([0, 2, 10])}
        seconds = choice([120, 900, 86400])
        self.make_table(name, group, namespace, recycleAfterSeconds=seconds, retention=retention, **fields)

    def make_late_table(self) -> None:
        """One more table: in a group, in none, or in one that does not exist yet."""
        names = [g["metadata"]["name"] for g in self._world.api.peek(GROUPS) if g["metadata"]["namespace"] == SHOP]
        number = self._world.number()
        if len(self._world.api.peek(TABLES)) < MOST_TABLES:
            group = self._random.choice(["", f"new-{number}", *names])
            fields: JsonObject = {} if group in names else {"buckets": 2, "replicas": 2}
            self.make_any_table(f"late-{number}", group, SHOP, **fields)

    def any_table(self) -> JsonObject | None:
        tables = self._world.api.peek(TABLES)
        return self._random.choice(tables) if tables else None

    def any_group(self) -> JsonObject | None:
        groups = self._world.api.peek(GROUPS)
        return self._random.choice(groups) if groups else None

    # Loads

    def load(self) -> None:
        """Somebody loads any table in any way; the load runs next to everything else."""
        table = self.any_table()
        if table is None:
            return
        change, slowness = self._random.choice(CHANGES), self._random.choice([0.2, 1, 5, 30])
        load = Load(self._world, table["metadata"]["namespace"], table["metadata"]["name"], change, slowness)
        self.start(load)

    def start(self, load: Load) -> "asyncio.Task[None]":
        """In the background."""
        task = self._world.loop.create_task(load.run())
        self.loads.add(task)
        task.add_done_callback(self.loads.discard)
        return task

    def roll_back(self) -> None:
        table = self.any_table()
        if table is not None and table["metadata"]["uid"] not in self._world.hostile:
            roll_back(self._world, table["metadata"]["namespace"], table["metadata"]["name"])

    # Changes

    def move(self) -> None:
        """A table is to be in another group of as many buckets, in none, or back where it was."""
        table = self.any_table()
        if table is None:
            return
        namespace = table["metadata"]["namespace"]
        group = self._world.group_of(table)
        buckets = group["spec"]["buckets"] if group else None
        others = [g for g in self._world.api.peek(GROUPS) if g["spec"]["buckets"] == buckets and not _is_private(g)]
        names = [group_reference(namespace, (g["metadata"]["namespace"], g["metadata"]["name"])) for g in others]
        patch = {"spec": {"colocateWith": self._random.choice(["", *names, *names])}}
        self._world.api.merge(TABLES, namespace, table["metadata"]["name"], patch)

    def change_replicas(self) -> None:
        """Up or down, to no more than there are nodes that may hold them."""
        group = self.any_group()
        if group is None or _is_private(group):
            return
        most = min(4, len(self._world.machines) - 1)
        wanted = self._random.choice([1, 2, 2, 3, 4])
        self.patch_group(group, {"replicas": min(wanted, most)})

    def change_group(self) -> None:
        """Any other field of a group that may change."""
        group = self.any_group()
        if group is None:
            return
        choice = self._random.choice
        patches: list[JsonObject] = [
            {"balancing": {"strict": choice([True, False])}},
            {"balancing": {"enabled": choice([True, True, False])}},
            {"relocation": {"downToleranceSeconds": choice([0, 60, 300])}},
            {"topologyKey": choice(["", LABEL_ZONE])},
            {"allowedNamespaces": choice([[], ["*"], [STOCK]])},
            {"bucketSequence": self._any_sequence(group)},
            {"bucketSequence": None},
        ]
        self.patch_group(group, choice(patches))

    def patch_group(self, group: JsonObject, spec: JsonObject) -> None:
        self._world.api.merge(GROUPS, group["metadata"]["namespace"], group["metadata"]["name"], {"spec": spec})

    def patch_table(self, table: JsonObject, spec: JsonObject) -> None:
        self._world.api.merge(TABLES, table["metadata"]["namespace"], table["metadata"]["name"], {"spec": spec})

    def _any_sequence(self, group: JsonObject) -> list[list[str]]:
        nodes, replicas = sorted(self._world.machines), group["spec"]["replicas"]
        count = min(replicas, len(nodes))
        return [self._random.sample(nodes, count) for _ in range(group["spec"]["buckets"])]

    def mark(self) -> None:
        """A group is marked unstable by hand, or the mark is taken away."""
        group = self.any_group()
        if group is not None:
            mark = self._random.choice(["somebody, now", None, None])
            self.annotate(group, {ANNOTATION_MARKED_UNSTABLE: mark})

    def annotate(self, group: JsonObject, annotations: dict[str, str | None]) -> None:
        metadata = group["metadata"]
        patch = {"metadata": {"annotations": annotations}}
        self._world.api.merge(GROUPS, metadata["namespace"], metadata["name"], patch)

    def weigh(self) -> None:
        node = self._random.choice(sorted(self._world.machines))
        self._world.label(node, LABEL_WEIGHT, self._random.choice([None, "1", "2", "0", "heavy"]))

    def drain(self) -> None:
        self.drain_node(self._random.choice(sorted(self._world.machines)), self._random.choice([True, False]))

    def drain_node(self, node: str, drain: bool) -> None:
        self._world.label(node, LABEL_DRAIN, "true" if drain else None)

    # Drops and recoveries

    def drop(self) -> None:
        """`kubectl delete ct` of any but the last table."""
        if len(self._world.api.peek(TABLES)) > 1 and (table := self.any_table()):
            self.drop_table(table)

    def drop_table(self, table: JsonObject) -> None:
        """What was committed is to be kept for as long as the table states."""
        world, status = self._world, table.get("status", {})
        files = world.committed(table) if table["metadata"]["uid"] not in world.hostile else frozenset()
        if files and status.get("group"):
            seconds = table["spec"].get("recycleAfterSeconds", 86400)
            world.checks.dropped[directory_of(table)] = Dropped(files, world.loop.elapsed + seconds)
        world.verdicts.look()  # its last commit may just have made its group unstable
        world.api.remove(TABLES, table["metadata"]["namespace"], table["metadata"]["name"])

    def load_and_drop(self) -> None:
        """The last thing that is done to a table is a load: maybe while no operator is there."""
        if (table := self.any_table()) is None:
            return
        namespace, name = table["metadata"]["namespace"], table["metadata"]["name"]
        load = Load(self._world, namespace, name, self._random.choice(CHANGES), 0.5)

        def drop(_: "asyncio.Task[None]") -> None:
            loaded = self._world.api.find(TABLES, namespace, name)
            if load.is_committed and loaded is not None and len(self._world.api.peek(TABLES)) > 1:
                self.drop_table(loaded)

        self.start(load).add_done_callback(drop)

    def recover(self) -> None:
        """`colocation recover` of any table that is in a bin."""
        records = list(self._world.records())
        if records:
            self.ask_back(*self._random.choice(records))

    def recover_and_drop(self) -> None:
        """A table that is brought back is dropped again as soon as it is there: what a copy of etcd names is in the
        bins under a uid that no one may remember.
        """
        records = list(self._world.records())
        if records:
            task = self._world.loop.create_task(self._recover_and_drop(*self._random.choice(records)))
            self.loads.add(task)
            task.add_done_callback(self.loads.discard)

    async def _recover_and_drop(self, group: JsonObject, record: JsonObject) -> None:
        self.ask_back(group, record)
        for _ in range(MOST_LOOKS):
            await asyncio.sleep(1)
            table = self._world.api.find(TABLES, record["namespace"], record["name"])
            if table is not None and table.get("status", {}).get("snapshot"):
                self.drop_table(table)
                return

    def ask_back(self, group: JsonObject, record: JsonObject) -> None:
        self.annotate(group, {f"{RECOVER_PREFIX}{record['uid'][:8]}": record["name"]})

    def give_up_purged(self) -> None:
        """Users delete tables that cannot come back, and those that no honest hand has written."""
        for table in self._world.api.all(TABLES):
            conditions = table.get("status", {}).get("conditions")
            conditions = conditions if isinstance(conditions, list) else []
            reasons = {one.get("reason") for one in conditions if isinstance(one, dict)}
            if "Purged" in reasons or ("Recovering" in reasons and self._is_hopeless(table)):
                self._world.api.remove(TABLES, table["metadata"]["namespace"], table["metadata"]["name"])

    def _is_hopeless(self, table: JsonObject) -> bool:
        """Whether bins were emptied before the table came back, and it has a damaged copy of some file at most."""
        world, metadata = self._world, table["metadata"]
        if ANNOTATION_RECOVERS not in metadata["annotations"]:
            return False  # the administrator adopts it
        before = table_directory(metadata["name"], metadata["annotations"][ANNOTATION_RECOVERS])
        kept = world.checks.dropped.get(before)
        wanted = files_in(world.recovering(table), "")
        is_over = kept is not None and world.loop.elapsed >= kept.keep_until
        return is_over and not wanted <= world.lying(metadata["namespace"], metadata["name"])

    def accept_disks(self) -> None:
        """Admins accept the disk in a node, once groups report that it is another one than before."""
        for node in sorted(self._world.machines):
            if self._world.has_other_disk(node):
                self._world.accept_disk(node)

    # Tenants who may patch the status of tables

    def attack(self) -> None:
        """Anything into any status field of a table that no one else relies on."""
        tables = [table for table in self._world.api.peek(TABLES) if self._is_victim(table)]
        if not tables:
            return
        table = self._random.choice(tables)
        field, value = self._random.choice(HOSTILE_FIELDS), self._random.choice(HOSTILE_VALUES)
        self._world.hostile.add(table["metadata"]["uid"])
        self._world.note(f"somebody writes {field} = {value!r} into {table['metadata']['name']}")
        try:
            namespace, name = table["metadata"]["namespace"], table["metadata"]["name"]
            self._world.api.merge(TABLES, namespace, name, {"status": {field: value}}, "status")
        except NotFound:
            return

    def _is_victim(self, table: JsonObject) -> bool:
        """One of several in its group: what is done to it must not be seen in the others."""
        return len(self._world.tables_of(placing_key(table))) > 1


def _is_private(group: JsonObject) -> bool:
    return group["metadata"].get("labels", {}).get(LABEL_PRIVATE) == "true"
