"""Partitions by name: Hive-style folders, escaped as Spark reads them (``ExternalCatalogUtils.escapePathName``)."""

import datetime
import re
from decimal import Decimal

from colocation.model.table_manifest import HIVE_NULL

PartitionValue = str | int | float | bool | Decimal | datetime.date | None
"""A value as a program gives it, a ``datetime`` too; a text is what Spark's ``CAST … AS STRING`` makes of the value."""


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
    """A value as text that Spark casts back to it; empty text is NULL.

    A time with an offset keeps it (``2024-01-01 00:00:00Z`` in UTC); one without is of the session's time zone.

    Raises:
        ValueError: a value of another type.
    """
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case datetime.datetime():
            return _time_text(value)
        case Decimal():
            return format(value, "f")
        case str() | int() | float() | datetime.date():
            return str(value)
    raise ValueError(
        f"partition value {value!r} is of type {type(value).__name__}; allowed are str, int, float, bool, "
        "decimal.Decimal, datetime.date, datetime.datetime and None; give another one as the text that Spark's "
        "CAST(… AS STRING) makes of it"
    )


def _time_text(time: datetime.datetime) -> str:
    """As Spark writes it: no more digits of the second than it has, and Z for an offset of nothing."""
    text = time.replace(tzinfo=None, microsecond=0).isoformat(sep=" ")
    fraction = f".{time.microsecond:06}".rstrip("0").rstrip(".")
    offset = time.utcoffset()
    zone = "" if offset is None else "Z" if not offset else time.isoformat(timespec="seconds")[len(text):]
    return text + fraction + zone
