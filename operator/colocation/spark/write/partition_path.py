"""Partitions by name: Hive-style folders, escaped as Spark reads them (``ExternalCatalogUtils.escapePathName``)."""

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence

from colocation.model.table_manifest import HIVE_NULL

_CONTROL_CHARACTERS = [chr(code) for code in range(0x01, 0x20)]
_ESCAPED = frozenset([*_CONTROL_CHARACTERS, *"\"#%'*/:=?\\\x7f{[]^"])

PartitionValue = str | int | bool | datetime.date | None
"""A value as a program gives it; others (decimals, times, doubles) are given as Spark's ``CAST … AS STRING``."""


def partition_folder(values: Mapping[str, str | None]) -> str:
    """``a=1/b=__HIVE_DEFAULT_PARTITION__`` for {"a": "1", "b": None}; empty without partition columns."""
    return "/".join(f"{escape(name)}={HIVE_NULL if value is None else escape(value)}" for name, value in values.items())


def parse_partition(folder: str) -> dict[str, str | None]:
    """The inverse of ``partition_folder``; some of the columns are enough.

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


def chosen_partitions(
    columns: Sequence[str], given: Iterable[Mapping[str, PartitionValue]]
) -> tuple[dict[str, str | None], ...]:
    """Partitions as a manifest names them: the table's spelling of columns, Spark's string form of values.

    Args:
        columns: the table's partition columns.
        given: columns without regard to case; ``""`` is NULL, as in a load.

    Raises:
        ValueError: a column that is not one of these, or a partition that names none.
    """
    spelling = {name.lower(): name for name in columns}
    chosen = []
    for partition in given:
        unknown = [name for name in partition if name.lower() not in spelling]
        if unknown or not partition:
            raise ValueError(
                f"partition {dict(partition)}: {', '.join(unknown) or 'it names no column'}; the table is partitioned "
                f"by ({', '.join(columns) or 'nothing'})"
            )
        chosen.append({spelling[name.lower()]: _text(value) for name, value in partition.items()})
    return tuple(chosen)


def escape(text: str) -> str:
    """Percent-escapes what a folder's name must not hold."""
    return "".join(f"%{ord(character):02X}" if character in _ESCAPED else character for character in text)


def unescape(text: str) -> str:
    """The inverse of ``escape``."""
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


def _text(value: PartitionValue) -> str | None:
    if isinstance(value, datetime.datetime):
        raise ValueError(f"partition value {value!r}: give a time as Spark writes it, e.g. '2024-01-01 00:00:00'")
    if isinstance(value, bool):
        return str(value).lower()
    return None if value in (None, "") else str(value)
