"""What kopf's handlers pass on, and how the operator's process ends."""

import asyncio

import kopf

from colocation.controller.handlers import _handler, stop
from colocation.kube.api import NODES, Resource


class Listener:
    """An operator that only hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def take(self, resource: Resource, body: dict[str, str], deleted: bool) -> None:
        self.heard.append(("deleted" if deleted else "there", body["name"]))

    def take_listed(self, resource: Resource, body: dict[str, str]) -> None:
        self.heard.append(("listed", body["name"]))


async def test_what_a_watch_begins_with_is_told_apart() -> None:
    """kopf lists again without a word when the API server has forgotten; what is gone by then is told by nothing."""
    operator = Listener()
    for kind, name in ((None, "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")):
        event = {"type": kind, "object": {"name": name}}
        await _handler(NODES)(event=event, memo=kopf.Memo(operator=operator))
    assert operator.heard == [("listed", "a"), ("there", "b"), ("there", "b"), ("deleted", "b")]


async def test_nothing_is_left_that_kopf_would_wait_for() -> None:
    """A task of kopf's waits for the flag; while it is not set, kopf waits 5 s for that task. It did not die of it."""
    memo = kopf.Memo(stop=asyncio.Event(), has_died=False)
    await stop(memo=memo)
    assert memo.stop.is_set()
    assert not memo.has_died
