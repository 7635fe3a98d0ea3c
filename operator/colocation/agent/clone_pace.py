"""What clones may read of this node: their answers wait for the node's budget, and no other reader's do."""

import asyncio
import time
from collections.abc import Callable

from colocation.storage.pace import MIB, OwnSchedule


class ClonePace:
    """Used on the event loop only. Clone Jobs ask for pieces, so that each waits for some pieces of the others.

    Args:
        mib_per_second: the budget; None = none.
        clock: monotonic seconds.
    """

    def __init__(self, mib_per_second: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._mib_per_second = mib_per_second
        self._clock = clock
        self._schedule = OwnSchedule(clock())

    def wait_seconds(self, count: int) -> float:
        """Take ``count`` bytes of the budget; how long to wait before they are sent."""
        if self._mib_per_second is None:
            return 0.0
        return self._schedule.reserve(self._clock(), count / (self._mib_per_second * MIB))

    async def wait(self, count: int) -> None:
        """Wait until ``count`` more bytes may be sent."""
        wait_seconds = self.wait_seconds(count)
        if wait_seconds:
            await asyncio.sleep(wait_seconds)
