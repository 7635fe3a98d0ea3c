"""When the clock alone makes a pass find something to do: snapshots and dropped tables whose time is over, and what the
API server refused and is asked for again.
"""

from collections.abc import Iterator
from datetime import datetime

from ..state.observation import Observation
from ..state.parse import parse_time


def next_deadline(observation: Observation) -> datetime | None:
    """The earliest one; None when nothing waits for the clock."""
    return min(_deadlines(observation), default=None)


def _deadlines(observation: Observation) -> Iterator[datetime]:
    for group in observation.groups:
        times = [group.status.delete_after, *(record.purge_at for record in group.status.recycled)]
        yield from (time for text in times if (time := parse_time(text)))
    for table in observation.tables:
        if table.history_ends_at is not None:
            yield table.history_ends_at
    yield from (refused.retry_at for refused in observation.refused_files.values())
