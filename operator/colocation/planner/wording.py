"""Words of reasons and messages: lists of buckets, times and bytes, the same everywhere."""

from collections.abc import Iterable
from datetime import datetime

MAX_LISTED = 10


def listed(names: Iterable[object], limit: int = MAX_LISTED) -> str:
    """``0, 3, 5``; what exceeds ``limit`` becomes ``and 7 more``."""
    shown = [str(name) for name in names]
    if len(shown) <= limit:
        return ", ".join(shown)
    return f"{', '.join(shown[:limit])} and {len(shown) - limit} more"


def buckets_of(buckets: list[int], total: int) -> str:
    """``bucket 3 (1 of 8)`` or ``buckets 0, 3, 5 (3 of 8)``."""
    noun = "bucket" if len(buckets) == 1 else "buckets"
    return f"{noun} {listed(buckets)} ({len(buckets)} of {total})"


def timestamp(moment: datetime) -> str:
    """RFC 3339 with seconds; UTC as ``Z``."""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def count_of(number: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
