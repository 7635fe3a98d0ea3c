"""The placement planner: pure functions from a frozen `Snapshot` to a `Plan` with reasons.

Imports `colocation.model` and the standard library only; does no I/O; the clock is part of the snapshot.
"""

from .invariants import without_violations
from .planning import plan, plan_contained
from .preview import preview

__all__ = ["plan", "plan_contained", "preview", "without_violations"]
