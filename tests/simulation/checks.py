"""What must hold at every moment, whatever the faults: nothing wanted is deleted, no map runs ahead of its data.

An order is judged when it is carried out, against what the API server and the disks hold at that moment. Only what
*faults* took within the last `NEWS_SECONDS` counts as if it were still there: no operator can know of it yet.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from colocation.controller.leadership import LEASES
from colocation.kube.api import GROUPS, TABLES
from colocation.model.conditions import ConditionType, Reason
from colocation.model.names import ANNOTATION_ETCD_RESTORED, ANNOTATION_RECOVERS, group_key, table_directory

from .api import Event
from .disks import Disk, File, Manifest, TableKey, files_in
from .orders import OrderChecks
from .verdicts import is_strict

if TYPE_CHECKING:
    from .world import World

NEWS_SECONDS = 60.0
"""After so long an operator that is not cut off knows of a loss or a commit."""
LONGEST_FREEZE_SECONDS = 100
"""An operator that stood still goes on by sending what it had decided before."""


class Harm(AssertionError):
    """An operator did what it must never do."""


class Checks:
    """Raises `Harm`, and remembers the first one: the code under test must not be able to swallow it."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._maps: dict[str, tuple[int, list[list[str]]]] = {}
        self._placed: dict[str, tuple[Any, Any]] = {}
        self._terms: dict[int, str] = {}
        self._live: dict[str, set[str]] = {}
        self._left: dict[str, float] = {}
        self._frozen_at: float | None = None
        self.freezes = 0
        self.loading: set[int] = set()
        self.dropped: dict[str, Dropped] = {}
        self._committed: dict[str, set[Manifest]] = {}
        self.harm: Harm | None = None
        self.orders = OrderChecks(world, self.require)

    def fail(self, text: str) -> None:
        """Say that harm is done."""
        if self.harm is None:
            self._world.note(f"HARM: {text}")
            self.harm = Harm(text)
        raise self.harm

    def require(self, is_so: object, text: str) -> None:
        if not is_so:
            self.fail(text)

    # Deletions

    def before_delete(self, disk: Disk, file: File) -> None:
        """A file is about to go from a node, by order."""
        self._require_not_frozen(str(file), disk)
        table = self._world.table_at(file.key)
        if table is None:
            return self._before_delete_of_dropped(disk, file)
        if table["metadata"]["uid"] in self._world.hostile:
            return None
        if file in self._world.committed(table):
            row = self._world.row_of(table, file.bucket)
            is_named = disk.node in row and not self._is_strict(table)
            self.require(not is_named, f"{file} would go from {disk.node}, which the map names: {row}")
            self._keep_as_many_as_wanted(disk, file, table, row)
            return None
        if file in self._world.retained(table) or file in self._world.recovering(table):
            self.require(
                self._others(disk, file) or self._is_news(file),
                f"{file} of a retained or recovering snapshot would be lost with {disk.node}",
            )
        self.require(file.load not in self.loading, f"{file} of a load that is under way would go from {disk.node}")
        self.require(
            self._others(disk, file) or self._is_news(file) or not self._may_be_read(file),
            f"the last {file}, which queries may still read, would go from {disk.node}",
        )
        return None

    def _may_be_read(self, file: File) -> bool:
        """Whether a snapshot names it that has left its table's history within the grace."""
        left = {digest for digest, at in self._left.items()
                if self._world.loop.elapsed - at < self._world.limits.garbage_grace}  # fmt: skip
        return any(file in files_in(self._world.manifest(digest), file.directory) for digest in left)

    def _keep_as_many_as_wanted(self, disk: Disk, file: File, table: dict[str, Any], row: tuple[str, ...]) -> None:
        """Strict balancing writes a map ahead of its data: an order of a moment before rests on other whole copies."""
        is_strict = self._is_strict(table)
        others = [node for node in self._others(disk, file) if node in row or is_strict]
        wanted = len(row) - self._is_news(file)
        self.require(
            (others and len(others) >= wanted) or not row,
            f"{file} would go from {disk.node}, and of the map's {row} only {others} have it",
        )

    def _is_strict(self, table: dict[str, Any]) -> bool:
        group = self._world.group_of(table) or {"spec": {}}
        return is_strict(group)

    def _before_delete_of_dropped(self, disk: Disk, file: File) -> None:
        found = self.dropped.get(file.directory)
        if found is None or file not in found.files or self._world.loop.elapsed >= found.keep_until:
            return
        others = self._others(disk, file)
        others += [n for n, one in self._world.machines.items() if n != disk.node and _has_in_bin(one.disk, file)]
        self.require(others or self._is_news(file), f"{file} of a dropped table would be lost with {disk.node}")

    def before_forgetting(self, disk: Disk, key: TableKey, digests: Iterable[str]) -> None:
        """Manifests are about to go from a node, by order: never those of a table's snapshot, or of retained ones."""
        table = self._world.table_at(key)
        if table is None or table["metadata"]["uid"] in self._world.hostile:
            return
        gone = digests_of(table.get("status", {})).intersection(digests)
        others = [one for one in self._world.machines.values() if one.name != disk.node]
        for digest in gone:
            kept = any(digest in one.disk.folders[key].manifests for one in others if key in one.disk.folders)
            self.require(kept, f"manifest {digest[-6:]} of {key} would be lost with {disk.node}")

    def before_recycle(self, disk: Disk, key: TableKey, keep_seconds: float) -> None:
        """Only folders of tables that do not exist."""
        self._require_not_frozen(str(key), disk)
        self.require(self._world.table_at(key) is None, f"{key} on {disk.node} is in use, and would be recycled")

    def before_purge(self, disk: Disk, key: TableKey) -> None:
        """A recycled table goes when its time is over, and not before."""
        self._require_not_frozen(str(key), disk)
        found, now = self.dropped.get(key[1]), self._world.loop.elapsed
        is_due = found is None or now >= found.keep_until or found.files.isdisjoint(disk.bin[key].folder.files)
        self.require(is_due, f"{key} is purged on {disk.node} at {now:.0f} s, {found} is to be kept")

    def _require_not_frozen(self, what: str, disk: Disk) -> None:
        """Nothing goes while the Lease reports that etcd was restored; what was under way by then has ended since."""
        seconds = self._world.loop.elapsed - self._frozen_at if self._frozen_at is not None else 0.0
        self.require(seconds <= NEWS_SECONDS, f"{what} would go from {disk.node}, {seconds:.0f} s after the freeze")

    def _note_freeze(self, lease: dict[str, Any]) -> None:
        is_frozen = ANNOTATION_ETCD_RESTORED in lease["metadata"].get("annotations", {})
        self._frozen_at = (self._frozen_at or self._world.loop.elapsed) if is_frozen else None
        self.freezes += is_frozen

    def _others(self, disk: Disk, file: File) -> list[str]:
        return [node for node in self._world.holders(file) if node != disk.node]

    def _is_news(self, file: File) -> bool:
        lost_at = self._world.losses.get(file)
        return lost_at is not None and self._world.loop.elapsed - lost_at <= NEWS_SECONDS

    # Writes

    def after_write(self, event: Event) -> None:
        """Look at what was written to a group or a table."""
        if event.resource == GROUPS and not event.deleted:
            self.orders.after_group_write(event.body)
            self._check_map(event.body)
        if event.resource == LEASES:
            self.orders.after_lease_write(event.body)
            self._note_freeze(event.body)
            self._world.verdicts.after_lease_write(event.body)
        if event.resource == TABLES:
            self._note_commit(event.body, event.deleted)

    def _check_map(self, body: dict[str, Any]) -> None:
        """A map has no node twice in a bucket; its version grows with it; who enters it holds the bucket whole."""
        metadata, status = body["metadata"], body.get("status", {})
        rows, version = status.get("backendsPerBucketSeq"), status.get("mapVersion")
        self._world.verdicts.after_group_write(body)
        if rows is None:
            return
        twice = [row for row in rows if len(set(row)) != len(row)]
        self.require(not twice, f"a node twice in a bucket: {twice}")
        before_version, before = self._maps.get(metadata["uid"], (0, None))
        self._maps[metadata["uid"]] = version, rows
        if before is None or rows == before:
            return
        self.require(version > before_version, f"the map changed and its version {version} did not grow")
        if is_strict(body):
            return
        key = (metadata["namespace"], metadata["name"])
        for bucket, (old, new) in enumerate(zip(before, rows, strict=True)):
            for node in set(new) - set(old):
                self._check_entry(key, bucket, node)

    def _check_entry(self, group: tuple[str, str], bucket: int, node: str) -> None:
        """What was committed or lost a moment ago may be missing: the map was decided before."""
        machine = self._world.machines.get(node)
        if machine is None:
            return  # it is just gone
        for table in self._world.tables_of(group):
            conditions = {one["type"]: one for one in table.get("status", {}).get("conditions", ())}
            stalled = conditions.get(ConditionType.STALLED, {})
            if stalled.get("reason") == Reason.MANIFEST_MISSING and stalled["status"] == "True":
                continue  # it holds up no other table of the group
            wanted = [file for file in self._world.committed(table) if file.bucket == bucket]
            if wanted:
                self.orders.before_entry(node, wanted[0].directory, bucket)
            missing = [file for file in wanted if not machine.disk.holds(file) and not self._is_new(file)]
            self.require(not missing, f"node {node} enters the map of {group}, bucket {bucket}, without {missing}")

    def _is_new(self, file: File) -> bool:
        committed_at, now, verdicts = self._world.commits.get(file), self._world.loop.elapsed, self._world.verdicts
        seconds = NEWS_SECONDS + verdicts.news_delay_seconds
        if now - verdicts.confused_at <= NEWS_SECONDS:
            seconds += LONGEST_FREEZE_SECONDS
        is_new = committed_at is not None and now - committed_at <= seconds
        return is_new or self._is_news(file)

    def _note_commit(self, table: dict[str, Any], deleted: bool) -> None:
        """Files count as just committed when their table gets a snapshot, or another group places it."""
        uid, status = table["metadata"]["uid"], table.get("status", {})
        live = set[str]() if deleted or uid in self._world.hostile else digests_of(status)
        self._left.update(dict.fromkeys(self._live.get(uid, set()) - live, self._world.loop.elapsed))
        self._live[uid] = live
        now = None if deleted else (status.get("snapshot"), status.get("group"))
        before = self._placed.pop(uid, None)
        if now is None:
            return
        self._placed[uid] = now
        if before != now and uid not in self._world.hostile:
            moved = before is not None and before[1] != now[1]
            if before is not None and not before[0] and ANNOTATION_RECOVERS in table["metadata"].get("annotations", {}):
                self._check_recovery(table)
            if before is not None and moved and before[0] == now[0] and before[1] and now[1]:
                self._check_arrival(table, before[1])
            self._world.committed_at[uid] = self._world.loop.elapsed
            files = self._world.committed(table)
            if now[0]:
                self._committed.setdefault(uid, set()).add(files)
            for file in files:
                if moved or file not in self._world.commits:
                    self._world.commits[file] = self._world.loop.elapsed

    def _check_arrival(self, table: dict[str, Any], origin: str) -> None:
        """A table arrives in a group once its replicas are there, and once its old group deletes nothing of it."""
        metadata = table["metadata"]
        old = self._world.api.find(GROUPS, *group_key(metadata["namespace"], origin))
        new = self._world.group_of(table)
        if old is None or new is None:
            return
        buckets = {file.bucket for file in self._world.committed(table)}
        nodes = {node for bucket in buckets for node in self._world.row_of(table, bucket)}
        uids = (one["metadata"]["uid"] for one in (old, new))
        self.orders.before_arrival(metadata["uid"], *uids, sorted(nodes))
        for file in self._world.committed(table):
            row = [node for node in self._world.row_of(table, file.bucket) if node in self._world.machines]
            missing = [node for node in row if not self._world.machines[node].disk.holds(file)]
            self.require(not missing or self._is_new(file), f"{metadata['name']} arrives, and {missing} have no {file}")

    def _check_recovery(self, table: dict[str, Any]) -> None:
        """A table that is brought back gets its snapshot once all of it is there; or, where nodes have files that they
        cannot name, while the rest is in folders that are still to be taken over.
        """
        metadata, committed = table["metadata"], self._world.committed(table)
        lying = self._world.lying(metadata["namespace"], metadata["name"])
        lost = [file for file in committed if not files_in([file], "") <= lying and not self._is_news(file)]
        self.require(not lost, f"{metadata['name']} is called back, and no one has {lost}")
        self._check_rows(table)

    def _check_rows(self, table: dict[str, Any]) -> None:
        """It comes back as it was when it was dropped, with its last load; or, where etcd is as it was while the table
        was brought back the first time, with a snapshot that it has had since.
        """
        metadata = table["metadata"]
        before = self.dropped.get(table_directory(metadata["name"], metadata["annotations"][ANNOTATION_RECOVERS]))
        if before is not None:
            wanted = files_in(before.files, table_directory(metadata["name"], metadata["uid"]))
            found = self._world.committed(table)
            self.require(
                found == wanted or found in self._committed.get(metadata["uid"], ()),
                f"{metadata['name']} is called back with {found}, and was dropped with {wanted}",
            )

    def after_restore(self) -> None:
        """etcd is as it was some minutes ago: what it reports now is what counts, and has just been said."""
        world = self._world
        self._terms.clear()
        self._maps.clear()
        self._placed.clear()
        self._live.clear()
        self._left.clear()
        self._frozen_at = None
        self.orders.after_restore()
        world.verdicts.after_restore()
        recorded = {table_directory(one["name"], one["uid"]) for _, one in world.records()}
        self.dropped = {key: one for key, one in self.dropped.items() if key in recorded}
        for body in world.api.peek(GROUPS):
            self.after_write(Event(GROUPS, body, deleted=False))
        for table in world.api.peek(TABLES):
            self._note_commit(table, deleted=False)
            world.commits.update(dict.fromkeys(world.committed(table), world.loop.elapsed))

    # Operators

    def after_order(self, operator: str, term: int) -> None:
        """One operator acts in one term."""
        if term:
            first = self._terms.setdefault(term, operator)
            self.require(first == operator, f"both {first} and {operator} acted in term {term}")

    def everything_is_there(self) -> None:
        """Every committed and every retained file has a copy that is whole."""
        for table in self._world.honest_tables():
            for file in self._world.committed(table) | self._world.retained(table):
                self.require(self._world.holders(file), f"{file} is lost")


def digests_of(status: dict[str, Any]) -> set[str]:
    """Of a table's committed snapshot and its history."""
    live = [status["snapshot"]] if status.get("snapshot") else []
    return {str(one["manifest"]).removeprefix("sha256:") for one in (*live, *status.get("history", ()))}


class Dropped:
    """What was in a table when a user dropped it, and how long it is to be kept, in virtual seconds."""

    def __init__(self, files: Manifest, keep_until: float) -> None:
        self.files = files
        self.keep_until = keep_until

    def __str__(self) -> str:
        return f"until {self.keep_until:.0f} s"


def _has_in_bin(disk: Disk, file: File) -> bool:
    found = disk.bin.get(file.key)
    return found is not None and file in found.folder.files
