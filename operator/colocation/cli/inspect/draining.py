"""Waits until a drained node is empty: a bar with bytes and rate on a terminal, else a line for each change."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from ...model.snapshot import Snapshot
from ..errors import CommandFailed, may_pass, said_by
from ..terminal.moving_line import Say, bar, moving_line
from ..terminal.output import counted, size
from .left_out import LeftOutGroup, told

INTERVAL_SECONDS = 2.0
UNANSWERED_LOOKS_ALLOWED = 30
"""So many looks in a row may fail for a passing reason (a restarting API server or operator)."""


@dataclass(frozen=True)
class Clock:
    """How waiting tells and passes time."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


CLOCK = Clock(time.monotonic, time.sleep)


@dataclass(frozen=True)
class Remaining:
    """What a node still has to hand over: replicas of the maps, and their bytes less those that are copied already.

    ``held_up``: groups that may be on the node, of which nothing moves. The bytes of theirs are not known.
    ``is_seen``: whether the operator knows of the drain; before, it may still give the node replicas.
    """

    replicas: int
    bytes: int
    held_up: tuple[LeftOutGroup, ...] = ()
    is_seen: bool = True

    @property
    def is_nothing(self) -> bool:
        """Whether the node may go."""
        return not self.replicas and not self.held_up and self.is_seen

    @property
    def obstacles(self) -> str:
        """What keeps the rest from going, after a semicolon; empty when nothing does."""
        unseen = [] if self.is_seen else ["the operator has not seen the drain yet"]
        held_up = [told(self.held_up)] if self.held_up else []
        return "".join(f"; {one}" for one in (*unseen, *held_up))


def remaining_on(snapshot: Snapshot, node: str, left_out: Sequence[LeftOutGroup] = ()) -> Remaining:
    """The node's replicas in all groups' maps. ``left_out``: the groups that are not in the snapshot."""
    replicas = unsent = 0
    for group in snapshot.groups:
        for bucket, nodes in enumerate(group.map or ()):
            if node in nodes:
                replicas += 1
                unsent += group.bytes_of(bucket)
    replicas += sum(node in nodes for group in left_out for nodes in group.map or ())
    copied = sum(clone.bytes_done for clone in snapshot.clones if clone.source == node)
    held_up = tuple(group for group in left_out if group.may_be_on(node))
    is_seen = all(one.drain for one in snapshot.nodes if one.name == node)
    return Remaining(replicas, max(0, unsent - copied), held_up, is_seen)


def wait_until_empty(
    look: Callable[[], Remaining], node: str, timeout_seconds: float | None, clock: Clock = CLOCK
) -> None:
    """Return when no group's map names the node. ``look``: what remains on it now.

    Raises:
        CommandFailed: it took longer, nobody waits any more, or the cluster does not answer; the drain goes on.
    """
    advice = f"the drain goes on: colocation nodes; take it back: colocation undrain {node}"
    try:
        with moving_line() as say:
            _wait(look, node, timeout_seconds, clock, say)
    except KeyboardInterrupt:
        raise CommandFailed(f"interrupted; {advice}") from None
    except (ApiException, HTTPError, CommandFailed) as error:
        raise CommandFailed(f"{said_by(error)}; {advice}") from error


def _wait(
    look: Callable[[], Remaining], node: str, timeout_seconds: float | None, clock: Clock, say: Say
) -> None:
    begun, first, unanswered = clock.now(), None, 0
    while True:
        try:
            left = look()
        except (ApiException, HTTPError, CommandFailed) as error:
            unanswered += 1
            if unanswered > UNANSWERED_LOOKS_ALLOWED or not may_pass(error):
                raise
            elapsed = clock.now() - begun
            problem = f"it is not known what node {node} still holds: {said_by(error)}"
            shown = f"{problem}; asking again"
        else:
            if left.is_nothing:
                return
            unanswered, first, elapsed = 0, first or left, clock.now() - begun
            problem = _still_held(node, left, elapsed)
            shown = describe(first, left, elapsed)
        if timeout_seconds is not None and elapsed >= timeout_seconds:
            raise CommandFailed(problem)
        say(shown, "")
        clock.sleep(INTERVAL_SECONDS)


def _still_held(node: str, left: Remaining, elapsed_seconds: float) -> str:
    return f"node {node} still holds {counted(left.replicas, 'replica')} after {elapsed_seconds:.0f} s{left.obstacles}"


def describe(first: Remaining, left: Remaining, elapsed_seconds: float) -> str:
    """How far a drain is: a bar, replicas, bytes, the rate since it began to be watched, and what holds it up."""
    sent = max(0, first.bytes - left.bytes)
    share = sent / first.bytes if first.bytes else 1 - left.replicas / max(1, first.replicas)
    rate = f", {size(sent / elapsed_seconds)}/s" if elapsed_seconds > 0 and sent else ""
    return (
        f"{bar(share)} {left.replicas} of {counted(first.replicas, 'replica')} left, "
        f"{size(sent)} of {size(first.bytes)} copied{rate}{left.obstacles}"
    )
