"""Which replaced snapshots can still be read. Pure; one rule for who commits a load and for the operator."""

import datetime
from collections.abc import Sequence

from .table import Retention, TableSnapshot


def retained_history(
    snapshot: TableSnapshot, history: Sequence[TableSnapshot], retention: Retention, now: datetime.datetime
) -> tuple[TableSnapshot, ...]:
    """The entries of ``history`` that stay, the newest first.

    An entry was replaced when the next newer one was committed; the newest entry, when ``snapshot`` was.

    Args:
        snapshot: the committed one.
        history: those that it replaced, the newest first.
        retention: of the table.
        now: with a time zone.

    Raises:
        ValueError: a ``committedAt`` that is no RFC 3339 time.
    """
    kept: list[TableSnapshot] = []
    for replaced, newer in zip(history[: retention.snapshots], (snapshot, *history), strict=False):
        replaced_at = datetime.datetime.fromisoformat(newer.committed_at)
        if (now - replaced_at).total_seconds() >= retention.seconds:
            break  # those behind it were replaced before it
        kept.append(replaced)
    return tuple(kept)
