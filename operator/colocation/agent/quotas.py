"""What callers may take of this node at a time: requests, disk room for uploads, clone bandwidth, files being sent."""

import asyncio
import contextlib
import re
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator

from colocation.storage.bandwidth import MIB, OwnSchedule
from colocation.storage.errors import NoRoom
from colocation.storage.root import DataRoot

from .http_messages import Refusal
from .metrics import Metrics

MAX_SHARE_OF_NAMESPACE = 0.5
"""Share of the free room that several uploads to one namespace may reserve. A single one may take all."""

MAX_READS_OF_ACCOUNT = 512
"""At a time. A slow reader costs only the front's buffers."""
MAX_REMEMBERED_ENDS = 4096

_SENT_LINE = re.compile(r"([0-9a-f]{32}) (\d+)")


class Turns:
    """Limits concurrent requests per account (or namespace); excess requests queue until a timeout.

    Used on the event loop only.

    Args:
        what: the kind of request, for the message.
        most: at a time, of one account.
        most_waiting: of one account.
        wait_seconds: longest wait.
    """

    def __init__(self, what: str, most: int, most_waiting: int, wait_seconds: float) -> None:
        self._what = what
        self._most = most
        self._most_waiting = most_waiting
        self._wait_seconds = wait_seconds
        self._semaphores: dict[str, asyncio.Semaphore] = {}
        self._counts: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def turn(self, account: str) -> AsyncIterator[None]:
        """Wait for a turn, and hold it until left.

        Raises:
            Refusal: 429, too many wait, or this one has waited too long.
        """
        if self._counts[account] >= self._most + self._most_waiting:
            raise self._busy(account)
        self._counts[account] += 1
        semaphore = self._semaphores.setdefault(account, asyncio.Semaphore(self._most))
        try:
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await semaphore.acquire()
            except TimeoutError as error:
                raise self._busy(account) from error
            try:
                yield
            finally:
                semaphore.release()
        finally:
            self._counts[account] -= 1
            if not self._counts[account]:
                del self._counts[account], self._semaphores[account]

    def _busy(self, account: str) -> Refusal:
        message = f"{account} has {self._most} {self._what} under way here, as many as allowed; ask again later"
        return Refusal(429, "Busy", message, {"Retry-After": "1"})


class Reservation:
    """UploadRoom reserved for one upload."""

    def __init__(self, room: "UploadRoom", namespace: str, content_bytes: int) -> None:
        self._room = room
        self._namespace = namespace
        self.left_bytes = content_bytes
        room.kept[namespace] += content_bytes

    def arrived(self, content_bytes: int) -> None:
        """So many more bytes are on the disk, which counts them itself."""
        given_back = min(content_bytes, self.left_bytes)
        self.left_bytes -= given_back
        self._room.kept[self._namespace] -= given_back

    def end(self) -> None:
        """Release the rest: nothing more is expected."""
        self.arrived(self.left_bytes)
        if not self._room.kept[self._namespace]:
            del self._room.kept[self._namespace]


class UploadRoom:
    """Disk room reserved for uploads: bytes that were announced and have not arrived yet. Used on the event loop only.

    ``kept``: bytes by namespace.
    """

    def __init__(self, node: str, root: DataRoot, headroom_fraction: float) -> None:
        self.kept: Counter[str] = Counter()
        self._node = node
        self._root = root
        self._headroom_fraction = headroom_fraction

    @contextlib.contextmanager
    def keep(self, namespace: str, content_bytes: int) -> Iterator[Reservation]:
        """Reserve room for an upload while it arrives.

        Raises:
            NoRoom: with the running uploads the disk would fall below its headroom.
            Refusal: 429, the namespace has reserved too much already.
        """
        disk = self._root.disk()
        headroom_bytes = int(disk.capacity_bytes * self._headroom_fraction)
        kept_bytes = self.kept.total()
        available_bytes = disk.free_bytes - headroom_bytes - kept_bytes
        if content_bytes > available_bytes:
            raise NoRoom(
                f"{content_bytes} bytes announced, {max(available_bytes, 0)} available on node {self._node} "
                f"({disk.free_bytes} free, {headroom_bytes} kept as headroom, {kept_bytes} being received); "
                "free space or add nodes"
            )
        own_bytes = self.kept[namespace]
        allowed_bytes = int((available_bytes + own_bytes) * MAX_SHARE_OF_NAMESPACE)
        if own_bytes and own_bytes + content_bytes > allowed_bytes:
            message = (
                f"uploads to namespace {namespace} have announced {own_bytes} bytes that have not arrived, and "
                f"{content_bytes} more; "
                f"allowed: {allowed_bytes}; send them one after the other"
            )
            raise Refusal(429, "Busy", message, {"Retry-After": "1"})
        reservation = Reservation(self, namespace, content_bytes)
        try:
            yield reservation
        finally:
            reservation.end()


class CloneReadBudget:
    """What clones may read of this node: their answers wait for the budget, and no other reader's do.

    Used on the event loop only. Clone Jobs ask for pieces of files, so that each waits only for some pieces of the
    others.

    Args:
        mib_per_second: the budget; None = no limit.
        clock: monotonic seconds.
    """

    def __init__(self, mib_per_second: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._mib_per_second = mib_per_second
        self._clock = clock
        self._schedule = OwnSchedule(clock())

    def wait_seconds(self, count: int) -> float:
        """Take ``count`` bytes of the budget; returns how long to wait before they are sent."""
        if self._mib_per_second is None:
            return 0.0
        return self._schedule.reserve(self._clock(), count / (self._mib_per_second * MIB))

    async def wait(self, count: int) -> None:
        """Wait until ``count`` more bytes may be sent."""
        wait_seconds = self.wait_seconds(count)
        if wait_seconds:
            await asyncio.sleep(wait_seconds)


class RunningReads:
    """Files that the front is sending: how many, for whom, and how many bytes in the end. Used on the event loop only.

    ``changed`` is called when reads begin or end.
    """

    def __init__(self, metrics: Metrics, changed: Callable[[], None]) -> None:
        self._metrics = metrics
        self._changed = changed
        self._accounts: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._ended_before: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def check(self, account: str) -> None:
        """Check that the account may start another read.

        Raises:
            Refusal: 429.
        """
        if self._counts[account] >= MAX_READS_OF_ACCOUNT:
            message = f"{account} reads {self._counts[account]} files of this node now, as many as allowed; ask later"
            raise Refusal(429, "Busy", message, {"Retry-After": "1"})

    def begin(self, request_id: str, account: str) -> None:
        """Count a file that the front is about to send."""
        if request_id in self._ended_before:  # the caller left before the answer
            del self._ended_before[request_id]
            return
        self._accounts[request_id] = account
        self._counts[account] += 1
        self._changed()

    def take_lines(self, lines: list[str]) -> None:
        """Process lines of the front's log, one per ended request for a file."""
        for line in lines:
            match = _SENT_LINE.fullmatch(line)
            if match is not None:
                self._end(match[1], int(match[2]))
        self._changed()

    def forget(self) -> None:
        """Reset after a process of the front was killed, whose lines are lost."""
        self._accounts.clear()
        self._counts.clear()
        self._changed()

    def _end(self, request_id: str, sent_bytes: int) -> None:
        account = self._accounts.pop(request_id, None)
        if account is None:
            self._ended_before[request_id] = None
            if len(self._ended_before) > MAX_REMEMBERED_ENDS:
                self._ended_before.popitem(last=False)
            return
        self._metrics.count_sent(account, sent_bytes)
        self._counts[account] -= 1
        if not self._counts[account]:
            del self._counts[account]
