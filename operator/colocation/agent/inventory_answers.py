"""Answers to the newest question: reports on its tables and on the node, and the revision at which each changed.

A quiet table costs a comparison of four numbers per answer. Its report is made again after its files were published,
removed, hashed, found damaged or announced by a clone, after a look at its folders found a change (see ``upkeep``), and
after a sweep.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from colocation.model.agent import AgentReport, AskedTable, CloneProgress, DiskReport, TableReference, TableReport
from colocation.storage.clone_reports import read_progress, take_announced
from colocation.storage.disk_health import DiskHealth
from colocation.storage.inventory import Inventory
from colocation.storage.recycling import recycled_tables
from colocation.storage.root import DataRoot, Disk
from colocation.storage.table_inventory import Stamp, path_of

from .conversation import Conversation, Question, key_of

FREE_BYTES_SHARE = 0.01
"""Share of the disk's size. Smaller changes of the free space are sent with the next answer, but cause none."""
MAX_TABLES_BYTES = 24 << 20
"""Approximate size of an answer: it ends with the table that exceeds this, and the next answer continues."""
FIRST_PART = 10**18
"""Revisions of partial answers; no others are so high."""
_BUCKET_BYTES = 160
_TABLE_BYTES = 400
_NUMBER_BYTES = 6
"""Largest size of a bucket, a table, and a number of a list in an answer."""
PROGRESS_SECONDS = 2.0
"""A clone that only advances is reported at most so often."""


class Bell:
    """Wakes held requests when something may have changed, from any thread. Created on the event loop.

    Take ``next_ring`` before checking for changes, then wait for it: no ring in between is lost.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._scheduled = False

    @property
    def next_ring(self) -> asyncio.Event:
        """Set when the bell next rings."""
        return self._rung

    def ring(self, *_cause: object) -> None:
        """Wake all that wait. Nearly free while an earlier ring is pending."""
        if self._scheduled:
            return
        self._scheduled = True
        with contextlib.suppress(RuntimeError):  # the loop has ended, and no request waits
            self._loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        self._scheduled = False
        rung, self._rung = self._rung, asyncio.Event()
        rung.set()


class Superseded(Exception):
    """Another question is now the newest."""


@dataclass
class _LastReport:
    """A table's last report, its stamp, and the revision at which it last changed."""

    reference: TableReference
    stamp: Stamp | None
    report: TableReport
    changed_at: int


@dataclass(frozen=True)
class _PartialAnswer:
    """An answer that is sent in parts; ``part`` is the revision of the last part sent.

    ``tables``: those of the question. ``left``: those still to be sent; what changes meanwhile is left to the next
    answer, so that this one ends. ``revision``: as of its begin. ``since``: the caller's revision then.
    """

    tables: Mapping[str, AskedTable]
    part: int | None
    revision: int
    left: tuple[str, ...]
    since: int | None


@dataclass(frozen=True)
class NodePart:
    """A report without its tables.

    ``unknown``: '<namespace>/<directory>' of folders that no question names -> bytes.
    """

    disk: Disk
    health: DiskReport
    unknown: Mapping[str, int]
    recycled: tuple[str, ...]
    clones: tuple[CloneProgress, ...]


class Answers:
    """Created and used by one thread at a time.

    Args:
        node: the node's name.
        root: its data root.
        inventory: what it holds.
        conversation: which question is the newest.
        health: of the disk.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        node: str,
        root: DataRoot,
        inventory: Inventory,
        conversation: Conversation,
        health: DiskHealth,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
        self._root = root
        self._inventory = inventory
        self._conversation = conversation
        self._health = health
        self._clock = clock
        self._revision = 1
        self._known: dict[str, _LastReport] = {}
        self._sent: NodePart | None = None
        self._sent_at = 0.0
        self._partial: _PartialAnswer | None = None
        self._parts = 0

    def answer(self, question: Question, since: int | None) -> AgentReport | None:
        """The report on a question's tables: those changed after revision ``since``, or all; the first ones if it is
        too large.

        None if nothing changed. ``since`` is a revision of this process, else None.

        Raises:
            Superseded: another question is the newest.
        """
        if self._conversation.question is not question:
            raise Superseded
        uptime_seconds = self._conversation.uptime_seconds  # before looking: the report is at least as new
        self._notice_announcements()
        part = self._node_part(question.tables.keys())
        if self._is_news(part):
            self._sent, self._sent_at = part, self._clock()
            self._revision += 1
        self._update_tables(question)
        if since == self._revision:
            return None
        tables, part_fields = self._next_part(question, since)
        report = self._report(part, tables, uptime_seconds)
        return report.model_copy(update=part_fields)

    def _next_part(self, question: Question, since: int | None) -> tuple[tuple[TableReport, ...], dict[str, object]]:
        """The reports on tables in the next answer, and the fields that identify the answer."""
        partial, self._partial = self._partial, None
        is_next = partial is not None and partial.part == since
        if partial is None or not is_next or partial.tables is not question.tables:
            partial = self._begin(question, partial.since if partial is not None and is_next else since)
        known = [one for key in partial.left if (one := self._known.get(key)) is not None]
        sent = _first_of([one.report for one in known])
        is_whole, number = len(sent) == len(known), partial.revision
        if not is_whole:
            self._parts += 1
            number = FIRST_PART + self._parts
            left = tuple(key_of(one.reference) for one in known[len(sent) :])
            self._partial = replace(partial, part=number, left=left)
        return sent, {
            "revision": f"{self._conversation.instance}-{number}",
            "is_full": partial.part is None and partial.since is None,
            "is_whole": is_whole,
        }

    def _begin(self, question: Question, since: int | None) -> _PartialAnswer:
        """Start an answer on all tables, or on those changed after ``since``."""
        known_since = since if since is not None and since <= self._revision else None
        news = (key for key, known in self._known.items() if known.changed_at > (known_since or 0))
        return _PartialAnswer(question.tables, None, self._revision, tuple(news), known_since)

    def unasked(self, tables: tuple[TableReference, ...], with_tables: bool) -> AgentReport:
        """A full report outside the conversation; ``unknown_directories`` only ``with_tables``."""
        uptime_seconds = self._conversation.uptime_seconds
        self._notice_announcements()
        part = self._node_part({key_of(reference) for reference in tables})
        report = self._report(part, self._inventory.report(tables), uptime_seconds)
        return report if with_tables else report.model_copy(update={"unknown_directories": (), "unknown_bytes": {}})

    def _notice_announcements(self) -> None:
        for table in take_announced(self._root):
            self._root.note_change(table)

    def _update_tables(self, question: Question) -> None:
        for key in self._known.keys() - question.tables.keys():
            del self._known[key]
        for key, asked in question.tables.items():
            known = self._known.get(key)
            path = path_of(asked.reference)
            stamp = None if path is None else self._inventory.table(path).stamp
            if known is not None and known.stamp == stamp and known.reference == asked.reference:
                continue
            report, stamp = self._inventory.report_on(asked.reference)
            if known is None or known.report != report:
                self._revision += 1
                self._known[key] = _LastReport(asked.reference, stamp, report, self._revision)
            else:
                known.reference, known.stamp = asked.reference, stamp

    def _node_part(self, named: Collection[str]) -> NodePart:
        # Places before and after the bin: a folder that moves between them meanwhile is reported at least once.
        placed = set(self._root.tables())
        recycled = {one.table for one in recycled_tables(self._root)}
        placed |= set(self._root.tables())
        unknown = {str(one): self._inventory.table(one).size_bytes() for one in sorted(placed) if str(one) not in named}
        bin_names = tuple(map(str, sorted(recycled)))
        return NodePart(self._root.disk(), self._disk_report(), unknown, bin_names, read_progress(self._root))

    def _disk_report(self) -> DiskReport:
        fault = self._health.fault
        if fault is None:
            return DiskReport(id=self._health.disk_id)
        return DiskReport(
            id=self._health.disk_id,
            reason=fault.reason,
            message=fault.message,
            since_uptime_seconds=self._conversation.uptime_at(fault.since),
        )

    def _is_news(self, part: NodePart) -> bool:
        """Whether the node's part differs enough from the last one sent to cause an answer."""
        sent = self._sent
        if sent is None or _is_other_space(sent.disk, part.disk):
            return True
        if self._clock() < self._sent_at + PROGRESS_SECONDS and _clone_keys(sent) == _clone_keys(part):
            part = replace(part, clones=sent.clones)
        return replace(part, disk=sent.disk) != sent

    def _report(self, part: NodePart, tables: tuple[TableReport, ...], uptime_seconds: float) -> AgentReport:
        return AgentReport(
            node=self._node,
            revision=f"{self._conversation.instance}-0",
            instance=self._conversation.instance,
            uptime_seconds=uptime_seconds,
            term=self._conversation.term,
            lease=self._conversation.lease,
            capacity_bytes=part.disk.capacity_bytes,
            free_bytes=part.disk.free_bytes,
            disk=part.health,
            tables=tables,
            unknown_directories=tuple(part.unknown),
            unknown_bytes=dict(part.unknown),
            recycled_directories=part.recycled,
            clones=part.clones,
        )


def _first_of(news: Sequence[TableReport]) -> tuple[TableReport, ...]:
    """As many reports as fit into one answer, and at least one."""
    size_bytes = 0
    for number, report in enumerate(news, start=1):
        size_bytes += _size_bytes(report)
        if size_bytes > MAX_TABLES_BYTES:
            return tuple(news[:number])
    return tuple(news)


def _size_bytes(report: TableReport) -> int:
    buckets = report.buckets.values()
    lists = sum(len(one.held_files) + sum(map(len, one.corrupt_files)) for one in buckets)
    numbers = len(report.retained_missing) + len(report.retained_only) + len(report.unnamed_buckets)
    return _TABLE_BYTES + _BUCKET_BYTES * len(buckets) + _NUMBER_BYTES * numbers + lists


def _is_other_space(sent: Disk, now: Disk) -> bool:
    moved = abs(now.free_bytes - sent.free_bytes)
    return now.capacity_bytes != sent.capacity_bytes or moved > FREE_BYTES_SHARE * sent.capacity_bytes


def _clone_keys(part: NodePart) -> set[tuple[str, str, int]]:
    return {(clone.namespace, clone.group, clone.bucket) for clone in part.clones}
