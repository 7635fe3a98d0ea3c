"""Which replaced snapshots can still be read. Pure; one rule for who commits a load and for the operator."""

import datetime
from collections.abc import Sequence

from .table import ColocatedTableStatus, Retention, TableSnapshot
from .times import parse_time


class SnapshotNotFound(ValueError):
    """No such snapshot is kept of the table; the message lists those that are."""


def find_snapshot(table: str, status: ColocatedTableStatus, snapshot_id: int) -> TableSnapshot:
    """A snapshot that the table (named as in the message) keeps, the current one included.

    Raises:
        SnapshotNotFound: listing those that it keeps.
    """
    kept = ((status.snapshot,) if status.snapshot else ()) + status.history
    for snapshot in kept:
        if snapshot.id == snapshot_id:
            return snapshot
    there = ", ".join(f"{snapshot.id} ({snapshot.committed_at})" for snapshot in kept) or "none, nothing was loaded yet"
    raise SnapshotNotFound(
        f"table {table} keeps no snapshot {snapshot_id}; it keeps: {there}. How long is said by spec.retention"
    )


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
