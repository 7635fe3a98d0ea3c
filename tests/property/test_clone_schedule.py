"""The limit on bytes per second, in virtual time: never more than the rate gives, and no caller waits in vain.

Of one process, and of several that share a node's file.
"""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.storage.bandwidth import (
    BURST_SECONDS,
    MAX_WAIT_SECONDS,
    SCHEDULE_FILE,
    NodeSchedule,
    OwnSchedule,
    Schedule,
)
from colocation.storage.root import DataRoot

RATE = 100.0
START = 1000.0
JOBS = 3
CALLS = st.lists(st.tuples(st.floats(0, 3), st.integers(1, 50), st.integers(0, JOBS - 1)), min_size=1, max_size=40)
"""Per call: seconds since the one before, bytes, which Job."""


class Grant(NamedTuple):
    """Bytes asked for at ``asked_at``, which may go at ``at``."""

    asked_at: float
    at: float
    count: int


@pytest.fixture(scope="module")
def root() -> Iterator[DataRoot]:
    """A node's data root, for all examples: each is another boot of the node."""
    with tempfile.TemporaryDirectory() as folder:
        opened = DataRoot(Path(folder), owns_ledger=False)
        yield opened
        opened.close()


_boots = map(str, itertools.count())


def granted(schedules: list[Schedule], calls: list[tuple[float, int, int]]) -> list[Grant]:
    """What each call was granted, in order."""
    now, grants = START, []
    for gap_seconds, count, job in calls:
        now += gap_seconds
        grants.append(Grant(now, now + schedules[job].reserve(now, count / RATE), count))
    return grants


def check(grants: list[Grant]) -> None:
    """The two properties."""
    largest = max(grant.count for grant in grants)
    for first, last in itertools.combinations_with_replacement(range(len(grants)), 2):
        window = grants[first : last + 1]
        seconds = window[-1].at - window[0].at
        assert sum(grant.count for grant in window) <= RATE * (seconds + BURST_SECONDS) + largest + 1e-3
    for number, grant in enumerate(grants):
        if grant.at > grant.asked_at + 1e-6:  # the rate was used up since some earlier moment, to the last byte
            assert any(
                sum(one.count for one in grants[since:number]) >= RATE * (grant.at - grants[since].asked_at) - 1e-3
                for since in range(number)
            )


@given(CALLS)
def test_one_process_keeps_to_the_rate(calls: list[tuple[float, int, int]]) -> None:
    """Within any time no more than rate x time, a burst and a block; anyone who waits, waits for what others took."""
    check(granted([OwnSchedule(START)] * JOBS, calls))


@given(CALLS)
def test_jobs_of_a_node_keep_to_it_together(root: DataRoot, calls: list[tuple[float, int, int]]) -> None:
    """Also where one of them runs alone for a while: it has all of the rate then."""
    boot = next(_boots)
    schedules = [NodeSchedule(root, boot) for _ in range(JOBS)]
    try:
        grants = granted(list(schedules), calls)
    finally:
        for schedule in schedules:
            schedule.close()
    check(grants)
    alone = granted([OwnSchedule(grants[0].asked_at)] * JOBS, calls)
    assert [grant.at for grant in grants] == pytest.approx([grant.at for grant in alone], abs=1e-6)


@given(st.binary(max_size=100))
def test_whatever_the_file_holds_no_one_waits_for_long(root: DataRoot, content: bytes) -> None:
    """It may be of another boot, cut off, or of another maker."""
    (root.path / ".incoming" / SCHEDULE_FILE).write_bytes(content)
    schedule = NodeSchedule(root, "boot")
    try:
        assert schedule.reserve(START, 0.1) <= MAX_WAIT_SECONDS
        assert schedule.reserve(START, 0.1) <= MAX_WAIT_SECONDS
    finally:
        schedule.close()


@pytest.mark.parametrize(
    ("boot", "due_at", "wait_seconds"),
    [
        pytest.param("boot", START + 3, 3.0, id="what others took"),
        pytest.param("boot", START - 100, 0.0, id="long ago"),
        pytest.param("boot", START + 1e12, MAX_WAIT_SECONDS, id="wrong"),
        pytest.param("boot", float("inf"), 0.0, id="endless"),
        pytest.param("another", START + 3, 0.0, id="another boot"),
    ],
)
def test_what_the_file_reports(root: DataRoot, boot: str, due_at: float, wait_seconds: float) -> None:
    """A clock that began again counts for nothing, and a wrong file costs a minute."""
    (root.path / ".incoming" / SCHEDULE_FILE).write_text(f"{boot:<40} {due_at}\n")
    schedule = NodeSchedule(root, "boot")
    try:
        assert schedule.reserve(START, 0.1) == pytest.approx(wait_seconds)
    finally:
        schedule.close()
