"""What a change of a table may ask for, as far as objects of the API server tell. Pure.

Java decides the same when the change runs (``ColocatedTable.java``, ``TableRebucketing.java``, ``Procedures.java``).
Here it is decided before an application is submitted.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from .base import MAX_BUCKETS
from .table import ColocatedTableSpec, ColocatedTableStatus, TableSnapshot
from .table_manifest import HIVE_NULL


class ChangedTable(NamedTuple):
    """A table that is to be changed.

    Attributes:
        name: ``<namespace>.<table>``.
        group_buckets: of the group that places it; 0 = not known.
        is_understood: whether the whole status is.
        has_first_spec: whether the spec is as it was made, so that all files are laid out by it.
    """

    name: str
    spec: ColocatedTableSpec
    status: ColocatedTableStatus
    group_buckets: int = 0
    is_understood: bool = True
    has_first_spec: bool = False

    def check_buckets(self, wanted: int) -> None:
        """Refuse a number of buckets that the table cannot have.

        Raises:
            ValueError: it cannot.
        """
        if self.group_buckets:
            allowed_buckets(self.name, self.group_buckets, wanted)

    def check_snapshot(self, wanted: int) -> None:
        """Refuse a snapshot that the table does not keep.

        Raises:
            ValueError: it does not.
        """
        if self.is_understood:
            kept_snapshot(self.name, self.status, wanted)

    def check_partitions(self, folders: Sequence[str]) -> None:
        """Refuse partitions by columns that are none.

        Raises:
            ValueError: a column is none, or a folder is not ``COLUMN=VALUE``.
        """
        for column in [name for folder in folders for name in parse_partition(folder)]:
            if self.has_first_spec:
                partition_column(column, self.spec.partitioned_by)


def allowed_buckets(table: str, of_group: int, wanted: int) -> int:
    """The number.

    Raises:
        ValueError: a table of a group of so many buckets cannot have it.
    """
    if wanted < of_group or wanted % of_group or wanted > MAX_BUCKETS:
        raise ValueError(
            f"buckets is {wanted}; table {table} is in a group of {of_group} buckets; allowed: {of_group} or a "
            f"multiple of it, up to {MAX_BUCKETS}"
        )
    return wanted


def kept_snapshot(table: str, status: ColocatedTableStatus, wanted: int) -> TableSnapshot:
    """The snapshot of this id.

    Raises:
        ValueError: the table does not keep it.
    """
    kept = [*([status.snapshot] if status.snapshot else []), *status.history]
    for snapshot in kept:
        if snapshot.id == wanted:
            return snapshot
    shown = ", ".join(f"{snapshot.id} ({snapshot.committed_at})" for snapshot in kept)
    raise ValueError(
        f"table {table} keeps no snapshot {wanted}; it keeps: {shown or 'none, nothing was loaded yet'}. "
        "spec.retention sets how long snapshots are kept"
    )


def partition_column(name: str, partitioned_by: Sequence[str]) -> str:
    """The partition column of this name, compared without case.

    Raises:
        ValueError: there is none.
    """
    for column in partitioned_by:
        if column.lower() == name.lower():
            return column
    advice = (
        f"the table is partitioned by ({', '.join(partitioned_by)}): give values of these"
        if partitioned_by
        else "the table has no partitions: leave them out, or change its rows by DELETE"
    )
    raise ValueError(f"partition: '{name}' is no partition column; {advice}")


def parse_partition(folder: str) -> dict[str, str | None]:
    """``a=1/b=__HIVE_DEFAULT_PARTITION__`` as {"a": "1", "b": None}; some of the columns are enough.

    Raises:
        ValueError: a part is not ``column=value``, or names a column again.
    """
    values: dict[str, str | None] = {}
    for part in folder.strip("/").split("/"):
        name, sign, value = part.partition("=")
        if not (name and sign):
            raise ValueError(
                f"partition {folder!r}: {part!r} is not COLUMN=VALUE; give e.g. dt=2024-01-01 or dt=2024-01-01/zone=a"
            )
        if unescape(name) in values:
            raise ValueError(f"partition {folder!r} names {unescape(name)} twice")
        values[unescape(name)] = None if value in ("", HIVE_NULL) else unescape(value)
    return values


def unescape(text: str) -> str:
    """A folder's name without its percent escapes."""
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)
