"""Partitions by name: Hive-style folders, escaped as Spark reads them (``ExternalCatalogUtils.escapePathName``)."""

import datetime
import re

from colocation.model.table_manifest import HIVE_NULL

PartitionValue = str | int | bool | datetime.date | None
"""A value as a program gives it; others (decimals, times, doubles) are given as Spark's ``CAST … AS STRING``."""


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


def partition_text(value: PartitionValue) -> str:
    """A value in Spark's string form; empty text is NULL.

    Raises:
        ValueError: a time, whose string form depends on the session.
    """
    if isinstance(value, datetime.datetime):
        raise ValueError(f"partition value {value!r}: give a time as Spark writes it, e.g. '2024-01-01 00:00:00'")
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
