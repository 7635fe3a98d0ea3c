"""Short stories without chance, for tests that each show one thing: a quiet cluster, and what is done to it."""

from collections.abc import Awaitable, Callable
from typing import Any

from colocation.kube.api import EVENTS, GROUPS, JOBS, TABLES, Resource
from colocation.model.clone import CloneSpec, spec_from_environment

from .api import Event, JsonObject
from .loads import APPEND, Change, Load, takes_loads
from .story import Cluster, new_cluster, problems
from .users import SHOP
from .world import Limits, World

Story = Callable[["Scene"], Awaitable[None]]
MINUTE = 60.0
MOST_LOADS = 6
SEED = 1


class Scene:
    """A cluster with one leading operator, and nothing that goes wrong by itself.

    ``dies_at``: the write at which the operator dies, counted from `count_writes`; ``dies_after``: once it is done.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world: World = cluster.world
        self.users = cluster.users
        self.operator = cluster.operators[0]
        self.dies_at: int | None = None
        self.dies_after = False

    # Looking

    def group(self, name: str = "sales") -> JsonObject:
        return self.world.api.read(GROUPS, SHOP, name)

    def table(self, name: str = "orders") -> JsonObject:
        return self.world.api.read(TABLES, SHOP, name)

    def status(self, name: str = "sales") -> JsonObject:
        """Of a group."""
        status: JsonObject = self.group(name).get("status", {})
        return status

    def rows(self, name: str = "sales") -> list[list[str]]:
        rows: list[list[str]] = self.status(name).get("backendsPerBucketSeq") or []
        return rows

    def is_stable(self, name: str = "sales") -> bool:
        return bool(self.status(name).get("stable"))

    def is_loaded(self, name: str = "orders") -> bool:
        """Whether the table is there, and has a snapshot."""
        table = self.world.api.find(TABLES, SHOP, name)
        return table is not None and bool(table.get("status", {}).get("snapshot"))

    def jobs(self) -> list[JsonObject]:
        return self.world.api.peek(JOBS)

    def condition(self, kind: str, of: JsonObject) -> tuple[str, str, str]:
        """Status, reason and message of an object's condition; empty ones where it has none of this type."""
        conditions = {one["type"]: one for one in of.get("status", {}).get("conditions", ())}
        found = conditions.get(kind, {})
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")

    def events(self, reason: str = "") -> list[JsonObject]:
        """Kubernetes events with this reason; without one, all."""
        return [event for event in self.world.api.peek(EVENTS) if reason in ("", event["reason"])]

    def rows_held(self, table: str = "orders") -> list[list[str]]:
        """The nodes that hold all committed files of each bucket, by name."""
        files = self.world.committed(self.table(table))
        buckets: dict[int, set[str]] = {}
        for file in sorted(files, key=lambda file: file.bucket):
            holders = set(self.world.holders(file))
            buckets[file.bucket] = buckets.get(file.bucket, holders) & holders
        return [sorted(holders) for _, holders in sorted(buckets.items())]

    def recorded(self, resource: Resource) -> list[Event]:
        """Every write of an object of this kind from now on, as it happens."""
        found: list[Event] = []
        self.world.api.watchers.append(lambda event: found.append(event) if event.resource == resource else None)
        return found

    # Doing

    def count_writes(self) -> None:
        """From here on."""
        self.operator.writes = 0
        self.operator.dies_at, self.operator.dies_after = self.dies_at, self.dies_after

    async def sleep(self, seconds: float) -> None:
        await self.cluster.sleep(seconds)

    async def until(self, what: Callable[[], object], seconds: float, step_seconds: float = 1.0) -> None:
        """Wait until it is so; it has to be in time."""
        is_so = await self.cluster.until(what, seconds, step_seconds)
        assert is_so, f"not within {seconds} s; {problems(self.cluster)}"

    async def until_well(self, seconds: float = 20 * MINUTE) -> None:
        """Wait until every group is stable, every file is just where it should be, and nothing runs."""
        await self.until(lambda: not problems(self.cluster), seconds, 2.0)

    async def load(self, change: Change = APPEND, table: str = "orders") -> None:
        """Load until it is committed, as a user does."""
        for _ in range(MOST_LOADS):
            load = Load(self.world, SHOP, table, change, 0.1)
            await load.run()
            if load.is_committed:
                return
            await self.sleep(20)
        raise AssertionError(f"{MOST_LOADS} loads failed; {self.world.timeline[-1]}")

    async def make(self, buckets: int = 2, replicas: int = 2, change: Change = APPEND, **fields: Any) -> None:
        """Group ``sales`` with table ``orders``, loaded, and all well."""
        retention = fields.pop("retention", {"seconds": 86400, "snapshots": 10})
        self.users.make_group("sales", buckets=buckets, replicas=replicas, **fields)
        self.users.make_table("orders", "sales", retention=retention)
        await self.until(lambda: takes_loads(self.table()), 3 * MINUTE)
        await self.load(change)
        await self.until_well()


def play(
    story: Story,
    nodes: int = 3,
    operators: int = 1,
    limits: Limits | None = None,
    with_disks: bool = False,
    settings: dict[str, Any] | None = None,
) -> World:
    """Plays it on so many nodes.

    ``limits``, ``settings``: of the operators, where they are not the usual ones. ``with_disks``: agents report which
    disk they have, and how it is.
    """
    cluster = new_cluster(SEED, operators)
    cluster.world.settings = settings or {}
    cluster.world.tells_disks_apart = with_disks
    cluster.world.limits = limits or cluster.world.limits
    scene = Scene(cluster)
    for _ in range(nodes):
        cluster.world.add_node("a", {"disks": "fast"})
    try:
        cluster.run(_to_the_end(story, scene))
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), *map(str, cluster.world.timeline)])) from error
    finally:
        cluster.close()
    return cluster.world


async def _to_the_end(story: Story, scene: Scene) -> None:
    for operator in scene.cluster.operators:
        operator.start()
    await story(scene)
    scene.world.checks.everything_is_there()


def spec_of(job: JsonObject) -> CloneSpec:
    """What a clone Job is to copy, from where, and how fast."""
    container = job["spec"]["template"]["spec"]["containers"][0]
    return spec_from_environment({one["name"]: one["value"] for one in container["env"] if "value" in one})


def created(events: list[Event]) -> list[JsonObject]:
    """Of these writes of Jobs, those that created one."""
    return [event.body for event in events if not event.deleted and not event.body.get("status")]
