"""Waits until a drained node is empty: a bar with bytes and rate on a terminal, else a line for each change."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..model.snapshot import Snapshot
from .errors import CommandFailed
from .moving_line import bar, moving_line
from .output import size

INTERVAL_SECONDS = 2.0


@dataclass(frozen=True)
class Clock:
    """How waiting tells and passes time."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


CLOCK = Clock(time.monotonic, time.sleep)


@dataclass(frozen=True)
class Remaining:
    """What a node still has to hand over: replicas of the maps, and their bytes less those that are copied already."""

    replicas: int
    bytes: int


def remaining_on(snapshot: Snapshot, node: str) -> Remaining:
    """The node's replicas in all groups' maps."""
    replicas = unsent = 0
    for group in snapshot.groups:
        for bucket, nodes in enumerate(group.map or ()):
            if node in nodes:
                replicas += 1
                unsent += group.bytes_of(bucket)
    copied = sum(clone.bytes_done for clone in snapshot.clones if clone.source == node)
    return Remaining(replicas, max(0, unsent - copied))


def wait_until_empty(
    look: Callable[[], Snapshot], node: str, timeout_seconds: float | None, clock: Clock = CLOCK
) -> None:
    """Return when no group's map names the node.

    Raises:
        CommandFailed: it took longer, or nobody waits any more; the drain goes on.
    """
    begun = clock.now()
    first = None
    advice = f"the drain goes on: colocation nodes; take it back: colocation undrain {node}"
    try:
        with moving_line() as say:
            while (left := remaining_on(look(), node)).replicas:
                first = first or left
                elapsed = clock.now() - begun
                if timeout_seconds is not None and elapsed >= timeout_seconds:
                    raise CommandFailed(
                        f"node {node} still holds {left.replicas} replicas after {elapsed:.0f} s; {advice}"
                    )
                say(describe(first, left, elapsed), "")
                clock.sleep(INTERVAL_SECONDS)
    except KeyboardInterrupt:
        raise CommandFailed(f"interrupted; {advice}") from None


def describe(first: Remaining, left: Remaining, elapsed_seconds: float) -> str:
    """How far a drain is: a bar, replicas, bytes, and the rate since it began to be watched."""
    sent = max(0, first.bytes - left.bytes)
    share = sent / first.bytes if first.bytes else 1 - left.replicas / first.replicas
    rate = f", {size(sent / elapsed_seconds)}/s" if elapsed_seconds > 0 and sent else ""
    return (
        f"{bar(share)} {left.replicas} of {first.replicas} replicas left, "
        f"{size(sent)} of {size(first.bytes)} copied{rate}"
    )
