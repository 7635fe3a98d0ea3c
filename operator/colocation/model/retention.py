"""Which replaced snapshots can still be read. Pure; one rule for who commits a load and for the operator."""

import datetime
from collections.abc import Sequence

from .table import Retention, TableSnapshot
from .times import parse_time


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
    """
    kept: list[TableSnapshot] = []
    for replaced, newer in zip(history[: retention.snapshots], (snapshot, *history), strict=False):
        replaced_at = parse_time(newer.committed_at)
        if replaced_at is not None and (now - replaced_at).total_seconds() >= retention.seconds:
            break  # those behind it were replaced before it
        kept.append(replaced)
    return tuple(kept)
