"""Nodes on which clones of a group fail again and again: left out for a growing time, remembered in its status."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..model.group import FailingTargetStatus
from ..model.snapshot import FailingTarget
from .parse import format_time, parse_time

FAILURES_BEFORE_LEFT_OUT = 3
FIRST_LEFT_OUT = timedelta(minutes=1)
LONGEST_LEFT_OUT = timedelta(minutes=60)
FORGOTTEN_AFTER = timedelta(hours=24)
MAX_CAUSE_LENGTH = 300


@dataclass(frozen=True)
class EndedClone:
    """An attempt that has ended on a node. ``cause``: how it failed; None = it succeeded."""

    node: str
    cause: str | None


def failing_targets_of(status: Iterable[FailingTargetStatus], now: datetime) -> dict[str, FailingTarget]:
    """By node, for the planner: those with so many failures in a row that the node is left out, or on probation."""
    found: dict[str, FailingTarget] = {}
    for one in status:
        retry_at = parse_time(one.retry_at)
        if one.failures >= FAILURES_BEFORE_LEFT_OUT and retry_at is not None:
            # A clock that has jumped since must not leave a node out for longer.
            retry_at = min(retry_at, now + LONGEST_LEFT_OUT)
            found[one.node] = FailingTarget(failures=one.failures, retry_at=retry_at, cause=one.message)
    return found


def next_failing_targets(
    before: Sequence[FailingTargetStatus], ended: Iterable[EndedClone], nodes: Container[str], now: datetime
) -> tuple[FailingTargetStatus, ...]:
    """What to remember after these attempts, in their order. ``nodes``: those that exist; others are forgotten."""
    found = {one.node: one for one in before if one.node in nodes and not _is_old(one, now)}
    for clone in ended:
        if clone.cause is None:
            found.pop(clone.node, None)
        elif clone.node in nodes:
            known = found.get(clone.node)
            failures = known.failures + 1 if known else 1
            found[clone.node] = FailingTargetStatus(
                node=clone.node,
                failures=failures,
                retry_at=format_time(now + _left_out(failures)),
                message=clone.cause[:MAX_CAUSE_LENGTH],
            )
    return tuple(found[node] for node in sorted(found))


def _left_out(failures: int) -> timedelta:
    """1, 2, 4, … 60 minutes from the third failure on."""
    doublings = failures - FAILURES_BEFORE_LEFT_OUT
    if doublings < 0:
        return timedelta()
    return min(FIRST_LEFT_OUT * 2 ** min(doublings, 10), LONGEST_LEFT_OUT)


def _is_old(target: FailingTargetStatus, now: datetime) -> bool:
    retry_at = parse_time(target.retry_at)
    return retry_at is None or now - retry_at > FORGOTTEN_AFTER
