"""Agents: processes on nodes that report what is stored there, and get orders to delete.

The rules are the real ones (`colocation.agent.conversation`): which question is the newest, what an order's proof has
to say. What is imitated here is only the work on the disk.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from colocation.agent.conversation import Conversation, Order, Question, StaleTerm, UnknownQuestion
from colocation.model.agent import (
    AgentReport,
    CloneProgress,
    DiskReport,
    InventoryRequest,
    RecycledSchema,
    Removed,
    TableReport,
)
from colocation.model.conditions import Reason
from colocation.model.names import AGENT_PORT
from colocation.model.table import Column
from colocation.storage.paths import TablePath

from .disks import Disk, File, TableKey, files_in

if TYPE_CHECKING:
    from .world import World


class AgentDied(Exception):
    """The process ended in the middle of what it did."""


class ManifestAway(Exception):
    """A live manifest is not held here."""


@dataclass
class _Known:
    report: TableReport
    changed_at: int


@dataclass(frozen=True)
class _NodePart:
    """All of a report but its tables. ``folders``: '<namespace>/<directory>' of those in their places."""

    gib_free: int
    disk: DiskReport | None
    folders: tuple[str, ...]
    recycled: tuple[str, ...]
    clones: tuple[CloneProgress, ...]


class AgentProcess:
    """One run of one node's agent. What it remembers is gone with it; the disk stays."""

    def __init__(self, world: "World", disk: Disk, address: str, number: int) -> None:
        self._world = world
        self.disk = disk
        self.node = disk.node
        self.address = address
        self.conversation = Conversation(lambda: world.loop.elapsed)
        self.conversation.instance = f"{disk.node}.{number}"
        self._revision = 1
        self._known: dict[str, _Known] = {}
        self._sent: tuple[_NodePart, tuple[str, ...]] | None = None
        self._ring = asyncio.Event()
        self.ends_after_files: int | None = None
        self.is_alive = True

    @property
    def url(self) -> str:
        return f"https://{self.address}:{AGENT_PORT}"

    def ring(self) -> None:
        """Something changed on the disk."""
        ring, self._ring = self._ring, asyncio.Event()
        ring.set()

    # Questions

    async def answer(self, request: InventoryRequest, revision: str | None) -> AgentReport | None:
        """The report, as soon as it differs from that of the revision; None when it does not within the wait.

        As `colocation.agent.inventory_requests` does it: a new question is answered at once, a replaced one is refused.
        """
        taken = self.conversation.take(request)
        self._world.checks.orders.after_term(self, request.term)
        self.ring()
        since = self._counter_of(revision)
        until = self._world.loop.elapsed + (0.0 if taken.is_new else request.wait_seconds)
        while True:
            ring = self._ring
            report = self.report(taken.question, since)
            left = until - self._world.loop.elapsed
            if report is not None or left <= 0 or not self.is_alive:
                return report
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await ring.wait()
            if self.conversation.question is not taken.question:
                self._check_successor(taken.question, since)
                return None

    def _check_successor(self, question: Question, since: int | None) -> None:
        """Refuse a question that was replaced, unless all that is missed is the answer to the asker's own newer one."""
        newest = self.conversation.question
        if self.conversation.term > question.term:
            raise StaleTerm(question.term, self.conversation.term)
        if newest is None or newest.session != question.session or since is None:
            raise UnknownQuestion("it was replaced by a newer one; ask in full")

    def report(self, question: Question, since: int | None) -> AgentReport | None:
        """On the tables of the question that changed after revision ``since``; None when nothing did."""
        part = self._node_part()
        unknown = tuple(name for name in part.folders if name not in question.tables)
        if (part, unknown) != self._sent:
            self._sent = (part, unknown)
            self._revision += 1
        for key in self._known.keys() - question.tables.keys():
            del self._known[key]
        for key, asked in question.tables.items():
            self.disk.need((asked.reference.namespace, asked.reference.directory), asked.reference.live_manifests)
            known, report = self._known.get(key), self.disk.report(asked.reference)
            if known is None or known.report != report:
                self._revision += 1
                self._known[key] = _Known(report, self._revision)
        if since == self._revision:
            return None
        is_full = since is None or since > self._revision
        return AgentReport(
            node=self.node,
            revision=f"{self.conversation.instance}-{self._revision}",
            instance=self.conversation.instance,
            uptime_seconds=self.conversation.uptime_seconds,
            term=self.conversation.term,
            lease=self.conversation.lease,
            capacity_bytes=self.disk.capacity_bytes,
            free_bytes=self.disk.free_bytes,
            disk=part.disk,
            is_full=is_full,
            tables=tuple(one.report for one in self._known.values() if is_full or one.changed_at > (since or 0)),
            unknown_directories=unknown,
            recycled_directories=part.recycled,
            clones=part.clones,
        )

    def _counter_of(self, revision: str | None) -> int | None:
        """Of a revision of this process."""
        instance, _, counter = (revision or "").rpartition("-")
        return int(counter) if instance == self.conversation.instance else None

    def _node_part(self) -> _NodePart:
        disk = self.disk
        return _NodePart(
            disk.free_bytes >> 30,
            self._disk_report(),
            tuple(sorted("/".join(key) for key in disk.folders)),
            tuple(sorted("/".join(key) for key in disk.bin)),
            self._world.kubelet.progress_on(self.node),
        )

    def _disk_report(self) -> DiskReport | None:
        """As `colocation.agent.answers`; a disk on which nothing more fits is full."""
        disk = self.disk
        if not disk.id:
            return None
        fault = disk.fault or (Reason.DISK_FULL if not disk.free_bytes else None)
        if fault is None:
            return DiskReport(id=disk.id)
        since_seconds = self.conversation.uptime_at(disk.fault_since)
        return DiskReport(id=disk.id, reason=fault, message="so it is", since_uptime_seconds=since_seconds)

    # Orders

    @contextlib.contextmanager
    def _deletion(self, order: Order) -> Iterator[TableKey]:
        """Around an order that is carried out; (namespace, directory) of its table."""
        with self.conversation.deletion(order):
            self._world.checks.orders.before_work(self, order)
            yield order.table.namespace, order.table.directory

    def drop_bucket(self, order: Order, grace_seconds: int) -> Removed:
        """Delete a bucket's files, but for young ones that no live manifest names."""
        with self._deletion(order) as key:
            garbage, _ = self.disk.garbage(key, order.manifests, grace_seconds, order.bucket)
            doomed = self._named(key, order.manifests) | garbage
            return self._delete(f for f in self.disk.files_of(key) if f.bucket == order.bucket and f in doomed)

    def collect(self, order: Order, grace_seconds: int) -> Removed:
        """Delete the old files and manifests that no live manifest names."""
        with self._deletion(order) as key:
            folder = self.disk.folders.get(key)
            if folder is None or not set(order.manifests) <= folder.manifests.keys():
                raise ManifestAway("a live manifest is not held here, so it is not known what is garbage")
            garbage, old = self.disk.garbage(key, order.manifests, grace_seconds)
            removed = self._delete(garbage)
            self._world.checks.before_forgetting(self.disk, key, old)
            self.disk.remove_manifests(key, sorted(old))
            return removed

    def recycle(self, order: Order, keep_seconds: int) -> None:
        """Move a folder into the bin."""
        with self._deletion(order) as key:
            self._world.checks.before_recycle(self.disk, key, keep_seconds)
            self.disk.recycle(key, self._world.loop.elapsed + keep_seconds)

    def restore(self, table: TablePath, successor: str, term: int) -> None:
        """Give a folder another name, out of the bin too."""
        target = TablePath(table.namespace, successor)
        with self.conversation.restoring(term, frozenset({str(table), str(target)})):
            self.disk.restore((table.namespace, table.directory), successor)

    def recycled_schema(self, table: TablePath, manifest: str) -> RecycledSchema | None:
        """The schema of a table in the bin, or in its place; None when it is not there."""
        key = (table.namespace, table.directory)
        recycled = self.disk.bin.get(key)
        folders = (self.disk.folders.get(key), recycled.folder if recycled else None)
        if not any(folder and manifest in folder.manifests for folder in folders):
            return None
        columns = (Column(name="key", type="bigint"),)
        return RecycledSchema(columns=columns, bucketed_by=("key",), buckets=self._world.buckets_of[manifest])

    def purge(self) -> None:
        """What has waited in the bin for long enough goes."""
        if not self.disk.takes_writes:
            return
        for key, recycled in sorted(self.disk.bin.items()):
            is_kept = self.conversation.keeps_recycled(TablePath(*key))
            if self._world.loop.elapsed >= recycled.purge_at and not is_kept:
                self._world.checks.before_purge(self.disk, key)
                self.disk.purge(key)

    def _named(self, key: TableKey, digests: Iterable[str]) -> set[File]:
        return {file for digest in digests for file in files_in(self._world.manifest(digest), key[1])}

    def _delete(self, doomed: Iterable[File]) -> Removed:
        """One after the other; the process may end on the way."""
        files = sorted(doomed, key=lambda file: (file.load, file.partition, file.bucket))
        for count, file in enumerate(files):
            if self.ends_after_files is not None and count >= self.ends_after_files:
                raise AgentDied
            self._world.checks.before_delete(self.disk, file)
            self.disk.remove([file])
        if self.ends_after_files is not None:
            raise AgentDied
        return Removed(files=len(files), bytes=sum(file.size_bytes for file in files))
