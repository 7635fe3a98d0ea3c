"""How the operator's process ends."""

import asyncio

import kopf

from colocation.controller.handlers import stop


async def test_nothing_is_left_that_kopf_would_wait_for() -> None:
    """A task of kopf's waits for the flag; while it is not set, kopf waits 5 s for that task. It did not die of it."""
    memo = kopf.Memo(stop=asyncio.Event(), has_died=False)
    await stop(memo=memo)
    assert memo.stop.is_set()
    assert not memo.has_died
