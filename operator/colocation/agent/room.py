"""Room that is kept for uploads while they arrive: what was announced and has not arrived yet."""

import contextlib
from collections import Counter
from collections.abc import Iterator

from colocation.storage.errors import NoRoom
from colocation.storage.root import DataRoot

from .errors import Refusal

MAX_SHARE_OF_ACCOUNT = 0.5
"""Of the room that is left: so much may one account keep by several uploads. A single one may take all."""


class Reservation:
    """Of one upload."""

    def __init__(self, room: "Room", account: str, content_bytes: int) -> None:
        self._room = room
        self._account = account
        self.left_bytes = content_bytes
        room.kept[account] += content_bytes

    def arrived(self, content_bytes: int) -> None:
        """So many bytes more are on the disk, which counts them itself."""
        given_back = min(content_bytes, self.left_bytes)
        self.left_bytes -= given_back
        self._room.kept[self._account] -= given_back

    def end(self) -> None:
        """Nothing more is expected."""
        self.arrived(self.left_bytes)
        if not self._room.kept[self._account]:
            del self._room.kept[self._account]


class Room:
    """Used on the event loop only. ``kept``: bytes by account."""

    def __init__(self, node: str, root: DataRoot, headroom_fraction: float) -> None:
        self.kept: Counter[str] = Counter()
        self._node = node
        self._root = root
        self._headroom_fraction = headroom_fraction

    @contextlib.contextmanager
    def keep(self, account: str, content_bytes: int) -> Iterator[Reservation]:
        """Keep room for an upload while it arrives.

        Raises:
            NoRoom: with the uploads under way the disk would fall below its headroom.
            Refusal: 429, the account keeps too much already.
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
        own_bytes = self.kept[account]
        allowed_bytes = int((available_bytes + own_bytes) * MAX_SHARE_OF_ACCOUNT)
        if own_bytes and own_bytes + content_bytes > allowed_bytes:
            message = (
                f"{account} has announced {own_bytes} bytes that have not arrived, and {content_bytes} more; "
                f"allowed: {allowed_bytes}; send them one after the other"
            )
            raise Refusal(429, "Busy", message, {"Retry-After": "1"})
        reservation = Reservation(self, account, content_bytes)
        try:
            yield reservation
        finally:
            reservation.end()
