"""Waiting on the event loop, for a limited time.

``asyncio.wait_for`` is not used (the linter refuses it): until Python 3.12 it loses a cancellation that comes at the
moment in which the awaited thing is done (bpo-37658), and a caller that waits for the cancelled task waits for ever.
"""

import asyncio
import contextlib


async def set_within(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, but no longer than so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
