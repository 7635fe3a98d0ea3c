"""Room that is kept for uploads while they arrive: what was announced and has not arrived yet."""

import contextlib
from collections import Counter
from collections.abc import Iterator

from colocation.storage.errors import NoRoom
from colocation.storage.root import DataRoot

from .errors import Refusal

MAX_SHARE_OF_NAMESPACE = 0.5
"""Of the room that is left: so much may several uploads to one namespace keep. A single one may take all."""


class Reservation:
    """Of one upload."""

    def __init__(self, room: "Room", namespace: str, content_bytes: int) -> None:
        self._room = room
        self._namespace = namespace
        self.left_bytes = content_bytes
        room.kept[namespace] += content_bytes

    def arrived(self, content_bytes: int) -> None:
        """So many bytes more are on the disk, which counts them itself."""
        given_back = min(content_bytes, self.left_bytes)
        self.left_bytes -= given_back
        self._room.kept[self._namespace] -= given_back

    def end(self) -> None:
        """Nothing more is expected."""
        self.arrived(self.left_bytes)
        if not self._room.kept[self._namespace]:
            del self._room.kept[self._namespace]


class Room:
    """Used on the event loop only. ``kept``: bytes by namespace."""

    def __init__(self, node: str, root: DataRoot, headroom_fraction: float) -> None:
        self.kept: Counter[str] = Counter()
        self._node = node
        self._root = root
        self._headroom_fraction = headroom_fraction

    @contextlib.contextmanager
    def keep(self, namespace: str, content_bytes: int) -> Iterator[Reservation]:
        """Keep room for an upload while it arrives.

        Raises:
            NoRoom: with the uploads under way the disk would fall below its headroom.
            Refusal: 429, the namespace keeps too much already.
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
