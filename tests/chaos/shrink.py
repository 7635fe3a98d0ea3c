"""Fewer faults that still make a run fail: Zeller's delta debugging over the faults of a plan.

A run takes minutes, and what depends on time may fail only sometimes; so the number of runs is bounded, and what is
left when they are used up is the answer.
"""

from collections.abc import Callable

from .plan import Plan

MOST_RUNS = 12


def shrink(plan: Plan, fails: Callable[[Plan], bool], most_runs: int = MOST_RUNS) -> Plan:
    """The plan with the fewest faults that was found to fail; as it was when no smaller one did.

    Raises:
        ValueError: it does not fail with all of its faults, this time.
    """
    if not fails(plan):
        raise ValueError(f"{plan.command} did not fail this time: there is nothing to look for")
    runs = 1

    def still_fails(numbers: list[int]) -> bool:
        nonlocal runs
        runs += 1
        return fails(plan.only(numbers))

    numbers = [fault.number for fault in plan.faults]
    if still_fails([]):
        return plan.only(())
    pieces = 2
    while len(numbers) > 1 and runs < most_runs:
        smaller = _smaller(numbers, pieces, lambda one: runs < most_runs and still_fails(one))
        if smaller is not None:
            numbers, pieces = smaller, max(2, min(pieces - 1, len(smaller)))
        elif pieces < len(numbers):
            pieces = min(len(numbers), 2 * pieces)
        else:
            break
    return plan.only(numbers)


def _smaller(numbers: list[int], pieces: int, fails: Callable[[list[int]], bool]) -> list[int] | None:
    """A piece of the numbers that fails, or what is left without a piece."""
    size = -(-len(numbers) // pieces)
    parts = [numbers[start : start + size] for start in range(0, len(numbers), size)]
    rests = [[one for one in numbers if one not in part] for part in parts] if len(parts) > 2 else []
    return next((one for one in (*parts, *rests) if fails(one)), None)
