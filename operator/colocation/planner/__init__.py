"""The placement planner: pure functions from a frozen `Snapshot` to a `Plan` with reasons.

Imports `colocation.model` and the standard library only; does no I/O; the clock is part of the snapshot.
"""

from .invariants import without_violations
from .planning import plan
from .preview import preview

__all__ = ["plan", "preview", "without_violations"]
