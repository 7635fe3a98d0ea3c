"""Loads in steps, as `colocation.spark` makes them: files to every replica, the manifest, a check, a compare-and-set.

Each step may fail, take long, or be overtaken: by another load, a changed map, a dropped table, a lost answer. A load
that ends without a commit leaves garbage.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from colocation.kube.api import TABLES, ApiError, Conflict
from colocation.model.table import ColocatedTableSpec, ColocatedTableStatus, TableSnapshot, retained_history
from colocation.state.parse import format_time

from .api import JsonObject
from .disks import GIB, File, Manifest
from .world import directory_of

if TYPE_CHECKING:
    from .world import World

Rows = tuple[tuple[str, ...], ...]
PARTITIONS = 3
MOST_ATTEMPTS = 5


class GaveUp(Exception):
    """The load failed; what it wrote is garbage."""


@dataclass(frozen=True)
class Change:
    """What a load does to the files that are there. ``goes_on_top``: of a change that overtook it. ``share``: of the
    buckets that get files.
    """

    name: str
    kept: Callable[[Manifest], Iterable[File]]
    writes_files: bool = True
    goes_on_top: bool = False
    share: float = 0.9


APPEND = Change("append", lambda files: files, goes_on_top=True)
APPEND_TO_SOME = replace(APPEND, name="append to some buckets", share=0.5)
EVERY_BUCKET = replace(APPEND, name="append to every bucket", share=1.0)
OVERWRITE = Change("overwrite", lambda files: ())
OVERWRITE_PARTITION = Change("overwrite partition", lambda files: (file for file in files if file.partition != 0))
COMPACT = Change("compact", lambda files: (file for file in files if file.partition != 1))
DROP_PARTITION = Change("drop partition", lambda files: (file for file in files if file.partition != 2), False)
EMPTY = Change("overwrite with nothing", lambda files: (), writes_files=False)
CHANGES = (APPEND, APPEND, OVERWRITE, OVERWRITE_PARTITION, COMPACT, DROP_PARTITION, EMPTY)


class Load:
    """One run of one load of one table.

    Args:
        world: the cluster.
        namespace, name: of the table.
        change: what it does.
        slowness: seconds between its steps, at most.
    """

    def __init__(self, world: "World", namespace: str, name: str, change: Change, slowness: float = 1.0) -> None:
        self._world = world
        self._random = world.random
        self._key = (namespace, name)
        self._change = change
        self._slowness = slowness
        self._number = world.number()
        self.is_committed = False

    async def run(self) -> None:
        """Load, and commit; or leave garbage."""
        self._world.checks.loading.add(self._number)
        try:
            async with asyncio.timeout(self._world.limits.longest_load):
                await self._load()
        except (GaveUp, TimeoutError) as error:
            self._world.note(f"{self._name} gave up: {error or 'it took too long'}")
        finally:
            self._world.checks.loading.discard(self._number)

    @property
    def _name(self) -> str:
        return f"load {self._number} ({self._change.name}) of {'/'.join(self._key)}"

    async def _load(self) -> None:
        table = self._read()
        rows = self._rows_of(table)
        new = self._new_files(table, len(rows)) if self._change.writes_files else ()
        for file in new:
            for node in rows[file.bucket]:
                await self._pause()
                self._put(node, file)
        self._world.note(f"{self._name} has sent {len(new)} files")
        for _ in range(MOST_ATTEMPTS):
            await self._pause()
            rows = await self._follow_map(table, rows, new)
            digest, files = self._publish(table, rows, new)
            await self._pause()
            current = await self._commit(table, digest, files)
            if current is None:
                self.is_committed = True
                self._world.note(f"{self._name} is committed")
                return
            overtaken = _snapshot(current) != _snapshot(table)
            if current["metadata"]["uid"] != table["metadata"]["uid"] or (overtaken and not self._change.goes_on_top):
                raise GaveUp("it was overtaken")
            table = current
        raise GaveUp("too many conflicts")

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.uniform(0.01, self._slowness))

    def _read(self) -> JsonObject:
        table = self._world.api.find(TABLES, *self._key)
        if table is None or not takes_loads(table):
            raise GaveUp("there is no such table, or it takes no loads")
        return table

    def _rows_of(self, table: JsonObject) -> Rows:
        group = self._world.group_of(table)
        rows = group.get("status", {}).get("backendsPerBucketSeq") if group else None
        if not rows:
            raise GaveUp("the group has no map")
        return tuple(tuple(row) for row in rows)

    def _new_files(self, table: JsonObject, buckets: int) -> tuple[File, ...]:
        """Of some buckets and partitions."""
        namespace, directory, random = table["metadata"]["namespace"], directory_of(table), self._random
        partitions = random.sample(range(PARTITIONS), random.choice([1, 1, 2]))
        return tuple(
            File(namespace, directory, self._number, bucket, random.randint(1, GIB), partition)
            for partition in partitions
            for bucket in range(buckets)
            if random.random() < self._change.share
        )

    def _put(self, node: str, file: File) -> bool:
        agent = self._world.network.agent_on(node)
        if agent is None or self._random.random() < self._world.kubelet.fail_rate:
            return False
        return not agent.disk.is_full_for_ever and agent.disk.put(file)

    async def _follow_map(self, table: JsonObject, rows: Rows, new: tuple[File, ...]) -> Rows:
        """Copy new files to the nodes that took over their buckets while the load ran."""
        now = self._rows_of(self._world.api.find(TABLES, *self._key) or table)
        if len(now) != len(rows):
            raise GaveUp("the table has other buckets now")
        for file in new:
            for node in set(now[file.bucket]) - set(rows[file.bucket]):
                await self._pause()
                if self._world.holders(file):
                    self._put(node, file)
        return now

    def _publish(self, table: JsonObject, rows: Rows, new: tuple[File, ...]) -> tuple[str, Manifest]:
        """The manifest to all nodes; a majority of each bucket's must hold it, with the bucket's new files."""
        files = frozenset((*self._change.kept(self._world.committed(table)), *new))
        if not self._change.writes_files and files == self._world.committed(table):
            raise GaveUp("it changes nothing")
        before = table.get("status", {}).get("snapshot")
        digest = self._world.add_manifest(files, len(rows), before["id"] + 1 if before else 1)
        key = (table["metadata"]["namespace"], directory_of(table))
        holders = set()
        for node in sorted({node for row in rows for node in row}):
            agent = self._world.network.agent_on(node)
            is_sent = agent is not None and self._random.random() >= self._world.kubelet.fail_rate
            if agent is not None and is_sent and agent.disk.put_manifest(key, digest):
                holders.add(node)
        for bucket, row in enumerate(rows):
            mine = [file for file in new if file.bucket == bucket]
            whole = [n for n in row if n in holders and self._world.machines[n].disk.holds_all(mine)]
            if 2 * len(whole) <= len(row):
                raise GaveUp(f"too few nodes hold bucket {bucket}")
        return digest, files

    async def _commit(self, table: JsonObject, digest: str, files: Manifest) -> JsonObject | None:
        """None when it is done, else the table as it is now."""
        status = ColocatedTableStatus.model_validate(table.get("status", {}))
        spec = ColocatedTableSpec.model_validate(table["spec"])
        now = self._world.api_wall.now()
        snapshot = TableSnapshot(
            id=status.snapshot.id + 1 if status.snapshot else 1,
            manifest=f"sha256:{digest}",
            committed_at=format_time(now),
            files=len(files),
            bytes=sum(file.size_bytes for file in files),
        )
        replaced = (status.snapshot,) if status.snapshot else ()
        history = retained_history(snapshot, replaced + status.history, spec.retention, now)
        return await self._compare_and_set(table, snapshot, history)

    async def _compare_and_set(
        self, table: JsonObject, snapshot: TableSnapshot, history: tuple[TableSnapshot, ...]
    ) -> JsonObject | None:
        """Answers may be lost, and the request is made again."""
        patch = {
            "metadata": {"resourceVersion": table["metadata"]["resourceVersion"]},
            "status": {"snapshot": snapshot.to_json_dict(), "history": [one.to_json_dict() for one in history]},
        }
        for _ in range(MOST_ATTEMPTS):
            lost = self._random.random() < self._world.kubelet.fail_rate
            try:
                if not lost or self._random.random() < 0.5:
                    self._world.api.merge(TABLES, *self._key, patch, "status")
            except Conflict:
                break
            except ApiError as error:
                raise GaveUp(str(error)) from error
            if not lost:
                return None
            await self._pause()
        current = self._world.api.find(TABLES, *self._key)
        if current is None:
            raise GaveUp("the table is dropped")
        status = current.get("status", {})
        published = [one["manifest"] for one in (status.get("snapshot"), *status.get("history", ())) if one]
        return None if snapshot.manifest in published else current


def takes_loads(table: JsonObject) -> bool:
    """Whether its ``Ready`` condition is true; a tenant may have written anything into the status."""
    conditions = table.get("status", {}).get("conditions")
    found = conditions if isinstance(conditions, list) else []
    return any(isinstance(one, dict) and one.get("type") == "Ready" and one.get("status") == "True" for one in found)


def roll_back(world: "World", namespace: str, name: str) -> bool:
    """Make the newest retained snapshot the current one again, as `colocation.spark` does; whether there was one."""
    table = world.api.find(TABLES, namespace, name)
    status = ColocatedTableStatus.model_validate((table or {}).get("status", {}))
    if table is None or not status.history or status.snapshot is None:
        return False
    spec, now = ColocatedTableSpec.model_validate(table["spec"]), world.api_wall.now()
    again = status.history[0]
    snapshot = again.model_copy(update={"id": status.snapshot.id + 1, "committed_at": format_time(now)})
    history = retained_history(snapshot, (status.snapshot, *status.history), spec.retention, now)
    patch = {"snapshot": snapshot.to_json_dict(), "history": [one.to_json_dict() for one in history]}
    world.api.merge(TABLES, namespace, name, {"status": patch}, "status")
    return True


def _snapshot(table: JsonObject) -> object:
    return table.get("status", {}).get("snapshot")
