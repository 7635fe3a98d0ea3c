"""Wakes requests that are held until something changes, from any thread."""

import asyncio
import contextlib


class Bell:
    """Made on the event loop. Take ``next_ring`` before looking whether something changed, then wait for it: no ring
    in between is lost.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._scheduled = False

    @property
    def next_ring(self) -> asyncio.Event:
        """Set when the bell is next rung."""
        return self._rung

    def ring(self, *_cause: object) -> None:
        """Wake all that wait. Costs next to nothing while an earlier ring is under way."""
        if self._scheduled:
            return
        self._scheduled = True
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits
            self._loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        self._scheduled = False
        rung, self._rung = self._rung, asyncio.Event()
        rung.set()
